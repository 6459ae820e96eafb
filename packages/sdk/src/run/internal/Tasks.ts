/**
 * What goes on beside the loop of a drive, each in a fiber of its own: the loops of sub-agents, and the approval callback while it is asked.
 *
 * A drive ends after all of its tasks. The failure of one fails the drive, and cancelling the run stops each of them.
 */
import * as Cause from "effect/Cause"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Semaphore from "effect/Semaphore"
import type * as Cancellation from "../../agent/Cancellation.ts"

interface Task {
  readonly token: Cancellation.CancellationToken
  readonly ended: Deferred.Deferred<void>
}

/** Why everything of a run is stopped whose state cannot be written any more. */
export const cannotGoOn = "The run cannot be gone on with here."

/** The drive whose tasks they are. */
interface Owner<E> {
  /** What the first task failed with: the loop fails with it, too. */
  failure: Cause.Cause<E> | undefined
  readonly token: Cancellation.CancellationToken
  /** Says that something has changed that a loop may wait for. */
  readonly notify: () => void
}

/** The tasks of one drive, by name. A sub-agent has the name of the call that started it. */
export class Tasks<E> {
  /** One commit at a time, and one fiber that takes mail. */
  readonly commits = Semaphore.makeUnsafe(1)
  readonly mail = Semaphore.makeUnsafe(1)
  private readonly drive: Owner<E>
  private readonly running = new Map<string, Task>()
  private readonly stopped = new Set<string>()
  private change = Deferred.makeUnsafe<void>()

  constructor(drive: Owner<E>) {
    this.drive = drive
  }

  get size(): number {
    return this.running.size
  }

  has(name: string): boolean {
    return this.running.has(name)
  }

  /** Whether a task was stopped whose end is not in the state yet: it does not start again before. */
  isStopped(name: string): boolean {
    return this.stopped.has(name)
  }

  /** Starts a task. No other one may have its name meanwhile. */
  start(
    name: string,
    token: Cancellation.CancellationToken,
    work: Effect.Effect<void, E>
  ): Effect.Effect<void> {
    return Effect.suspend(() => {
      const ended = Deferred.makeUnsafe<void>()
      this.running.set(name, { ended, token })
      const end = (exit: Exit.Exit<void, E>) => {
        token.release()
        this.running.delete(name)
        Deferred.doneUnsafe(ended, Exit.void)
        if (Exit.isFailure(exit) && !Cause.hasInterruptsOnly(exit.cause)) {
          this.drive.failure ??= exit.cause
          this.drive.token.cancel(cannotGoOn)
        }
        this.drive.notify()
      }
      const task = Effect.uninterruptible(Effect.map(Effect.exit(work), end))
      return Effect.asVoid(Effect.forkDetach(task, { startImmediately: true }))
    })
  }

  /** Asks a task to stop. {@link stop} waits for its end. */
  requestStop(name: string, reason: string): void {
    this.stopped.add(name)
    this.running.get(name)?.token.cancel(reason)
  }

  /** Stops tasks, and waits for their ends. */
  stop(names: ReadonlyArray<string>, reason: string): Effect.Effect<void> {
    return Effect.suspend(() => {
      const found = names.flatMap((name) => this.running.get(name) ?? [])
      for (const name of names) this.requestStop(name, reason)
      return awaitAll(found)
    })
  }

  /** Lets a task that was stopped start again, since its sub-agent was not ended. */
  allow(name: string): void {
    this.stopped.delete(name)
  }

  /** Waits until no task is left. One may start another before it ends. */
  get ended(): Effect.Effect<void> {
    return Effect.suspend(() =>
      this.size === 0 ? Effect.void : Effect.andThen(awaitAll([...this.running.values()]), this.ended)
    )
  }

  /** Waits for the next change. */
  get changed(): Effect.Effect<void> {
    return Deferred.await(this.change)
  }

  /** Resumes the loops that wait for a change. */
  resume(): void {
    const { change } = this
    this.change = Deferred.makeUnsafe()
    Deferred.doneUnsafe(change, Exit.void)
  }
}

const awaitAll = (tasks: ReadonlyArray<Task>): Effect.Effect<void> =>
  Effect.forEach(tasks, ({ ended }) => Deferred.await(ended), { discard: true })

/** The name under which the callback is asked beside the loop. */
export const approvalCallbackTask = "approvalCallback"
