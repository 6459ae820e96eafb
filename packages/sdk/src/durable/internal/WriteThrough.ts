/**
 * Writes the messages of a driven run to memory, each in the transaction of the events that brought it.
 *
 * At the first search or commit of a drive, it looks how far memory has the session. The messages before are written then: those of a program without
 * memory, of an earlier version, of an imported run, or of a fork, whose session has the messages of another. A memory that cannot be read
 * is not written in this drive; the next one catches up.
 */
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import { messageOf } from "../../domain/Display.ts"
import * as History from "../../domain/History.ts"
import type { RunState } from "../../domain/RunState.ts"
import type { MemoryOperations } from "../../memory/Memory.ts"
import type { MemoryPort, MemoryRow } from "../../store/MemoryPort.ts"

/** The most messages of one transaction. */
const batch = 64

const none: ReadonlyArray<never> = []

export class WriteThrough {
  /** The messages before this sequence number are in memory. `undefined` before memory was read, or if it could not be. */
  private next: number | undefined = undefined
  /** Whether memory was read in this drive. */
  isReady = false
  /** Why there were no rows, until it is logged. */
  private failure: unknown = undefined
  private readonly memory: MemoryOperations
  private readonly port: MemoryPort | undefined

  /** `port` is that of the store of the run. */
  constructor(memory: MemoryOperations, port: MemoryPort | undefined) {
    this.memory = memory
    this.port = port
  }

  /**
   * Reads how far memory has the session, and writes the messages from before the run, so that the run finds them. The others are written with
   * its next commit: a message that is not committed may never be.
   */
  catchUp(state: RunState): Effect.Effect<void> {
    const { memory } = this
    const port = memory["~port"]
    return Effect.gen({ self: this }, function* () {
      this.isReady = true
      if (port === undefined) return
      // Rows of another store could not be in the transaction of the events.
      if (port !== this.port)
        return yield* this.stop(state, new Error("the memory is of another store than the run"))
      const before = state.promptAt ?? 0
      let next = yield* port.indexed(state.sessionId)
      while (next < before) {
        const end = Math.min(next + batch, before)
        yield* port.write(memory["~rows"](state, next, end))
        next = end
        yield* Effect.yieldNow
      }
      this.next = next
    }).pipe(
      Effect.catchCause((cause) =>
        Cause.hasInterrupts(cause)
          ? Effect.failCause(cause as Cause.Cause<never>)
          : this.stop(state, Cause.squash(cause))
      )
    )
  }

  /** Writes nothing more to memory in this drive. */
  stop({ runId }: RunState, error: unknown): Effect.Effect<void> {
    this.next = undefined
    return Effect.logWarning(`The run ${runId} is not written to memory for now: ${messageOf(error)}`)
  }

  /** The rows of the messages that are not in memory. */
  rows(state: RunState): ReadonlyArray<MemoryRow> {
    if (this.next === undefined) return none
    try {
      return this.memory["~rows"](state, this.next)
    } catch (error) {
      // A run that cannot commit could not even fail.
      this.next = undefined
      this.failure = error
      return none
    }
  }

  /** Records that the rows of a state were committed. */
  committed(state: RunState): Effect.Effect<void> {
    if (this.next !== undefined) this.next = History.size(state.history)
    const { failure } = this
    this.failure = undefined
    return failure === undefined ? Effect.void : this.stop(state, failure)
  }
}
