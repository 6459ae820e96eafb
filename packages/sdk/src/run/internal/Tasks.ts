/**
 * The tasks beside the loop of a drive, each in a fiber of its own: the loops of sub-agents, and calls of the approval callback.
 *
 * A drive ends after all of its tasks. A failed task fails the drive, and cancelling the run stops every task.
 */
import * as Cause from "effect/Cause"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Semaphore from "effect/Semaphore"
import type * as Cancellation from "../../agent/Cancellation.ts"
import { isRunWithin, lineOf } from "../../domain/Id.ts"

interface Task {
  readonly token: Cancellation.CancellationToken
  readonly ended: Deferred.Deferred<void>
}

/** The reason that tools and tasks receive when the drive has failed. */
export const cannotGoOn = "This process can no longer drive the run."

/** The drive of the tasks, as far as they use it. */
interface TaskDrive<E> {
  /** The cause of the first failed task. The loop fails with it, too. */
  failure: Cause.Cause<E> | undefined
  readonly token: Cancellation.CancellationToken
  /** Resumes the loops that wait for a change. */
  readonly notify: () => void
}

/** The tasks of one drive, by name. The name of a sub-agent's task is the id of the call that started it. */
export class Tasks<E> {
  /** Serialize commits, and the taking of mail. */
  readonly commits = Semaphore.makeUnsafe(1)
  readonly mail = Semaphore.makeUnsafe(1)
  private readonly drive: TaskDrive<E>
  private readonly running = new Map<string, Task>()
  private readonly stopped = new Set<string>()
  private change = Deferred.makeUnsafe<void>()

  constructor(drive: TaskDrive<E>) {
    this.drive = drive
  }

  get size(): number {
    return this.running.size
  }

  has(name: string): boolean {
    return this.running.has(name)
  }

  /** Whether the task of a sub-agent, or of one above it, was stopped. It is not started again, unless {@link allow} permits it. */
  isStopped(name: string): boolean {
    return this.stopped.size > 0 && lineOf(name).path.some((callId) => this.stopped.has(callId))
  }

  /** Starts a task. Its name must not be in use. */
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

  /** Asks a task, and those of the sub-agents under it, to stop. {@link stop} waits for their end. */
  requestStop(name: string, reason: string): void {
    this.stopped.add(name)
    for (const [, { token }] of this.within(name)) token.cancel(reason)
  }

  /** Stops tasks and those of the sub-agents under them, and waits until they have ended. */
  stop(names: ReadonlyArray<string>, reason: string): Effect.Effect<void> {
    return Effect.suspend(() => {
      const found = names.flatMap((name) => this.within(name).map(([, task]) => task))
      for (const name of names) this.requestStop(name, reason)
      return awaitAll(found)
    })
  }

  /** The tasks with this name, and of the sub-agents under that one. */
  private within(name: string): ReadonlyArray<readonly [string, Task]> {
    return [...this.running].filter(([other]) => isRunWithin(other, name))
  }

  /** Lets a task that was stopped start again, since its sub-agent was not ended. */
  allow(name: string): void {
    this.stopped.delete(name)
  }

  /** Waits until no task is left. A task may start others before it ends. */
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

/** The name of the task that calls the approval callback. */
export const approvalCallbackTask = "approvalCallback"
