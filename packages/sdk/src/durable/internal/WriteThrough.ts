/**
 * Writes the messages of a driven run to memory, each in the transaction of the events that brought it.
 *
 * At the first search or commit of a drive, it looks how far memory has the session. The messages before are written then: those of a program without
 * memory, of an earlier version, of an imported run, or of a fork, whose session has the messages of another. A memory that cannot be read
 * is not written in this drive; the next one catches up.
 */
import * as Effect from "effect/Effect"
import { messageOf } from "../../domain/Display.ts"
import * as History from "../../domain/History.ts"
import type { RunState } from "../../domain/RunState.ts"
import type { MemoryOperations } from "../../memory/Memory.ts"
import type { MemoryRow } from "../../store/MemoryPort.ts"

/** The most messages of one transaction. */
const batch = 64

const none: ReadonlyArray<never> = []

export class WriteThrough {
  /** The messages before this sequence number are in memory. `undefined` before memory was read, or if it could not be. */
  private next: number | undefined = undefined
  isReady = false
  private readonly memory: MemoryOperations

  constructor(memory: MemoryOperations) {
    this.memory = memory
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
      Effect.catch((error) =>
        Effect.logWarning(`The run ${state.runId} is not written to memory for now: ${messageOf(error)}`)
      )
    )
  }

  /** The rows of the messages that are not in memory. */
  rows(state: RunState): ReadonlyArray<MemoryRow> {
    return this.next === undefined ? none : this.memory["~rows"](state, this.next)
  }

  /** Records that the rows of a state were committed. */
  committed({ history }: RunState): void {
    if (this.next !== undefined) this.next = History.size(history)
  }
}
