/**
 * What goes on beside the loop: fibers that belong to a drive, and waiting until one of them has got somewhere.
 *
 * The loop owns them: it ends when they have ended, whoever fails makes all fail, and cancelling the run interrupts each.
 */
import * as Cause from "effect/Cause"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Semaphore from "effect/Semaphore"
import type * as Cancellation from "../../agent/Cancellation.ts"
import type { RunId } from "../../domain/Id.ts"
import { type Beside, type Drive, flush, isActedOn, type Scope } from "./Drive.ts"
import type { JournalError } from "./Journal.ts"
import { Supervisor } from "./Supervisor.ts"

const besideOf = (drive: Drive): Beside => {
  drive.beside ??= {
    fibers: new Map(),
    stopped: new Set(),
    waiting: new Set(),
    ended: 0,
    asked: new Set(),
    commits: Semaphore.makeUnsafe(1),
    mail: Semaphore.makeUnsafe(1)
  }
  return drive.beside
}

/** Why everything of a run is stopped whose state cannot be written any more. */
export const cannotGoOn = "The run cannot be gone on with here."

/** Tells whoever waits that something has happened beside it. */
export const wake = (drive: Drive): void => {
  const { beside } = drive
  if (beside === undefined) return
  beside.ended += 1
  const waiting = [...beside.waiting]
  beside.waiting.clear()
  for (const resume of waiting) resume()
}

/** Whether something of this name is going on. */
export const isBeside = (drive: Drive, name: string): boolean => drive.beside?.fibers.has(name) === true

/** How many of these sub-agents are at work. */
export const countBeside = (drive: Drive, of: ReadonlyArray<{ readonly callId: string }>): number =>
  of.reduce((count, { callId }) => (isBeside(drive, callId) ? count + 1 : count), 0)

/** Whether anything is. */
export const isAnythingBeside = (drive: Drive): boolean => (drive.beside?.fibers.size ?? 0) > 0

/** Does something beside the loop, under a name that nothing else has meanwhile, until it ends or the token is cancelled. */
export const startBeside = (
  drive: Drive,
  name: string,
  token: Cancellation.CancellationToken,
  work: (supervisor: Supervisor) => Effect.Effect<void, unknown>
): Effect.Effect<void> =>
  Effect.withFiber(({ context }) => {
    const beside = besideOf(drive)
    // On the books before it begins: whoever looks meanwhile must not begin it a second time.
    const ended = Deferred.makeUnsafe<void>()
    beside.fibers.set(name, { ended, token })
    const stops: Supervisor["tokens"] = drive.leaving === undefined ? [token] : [token, drive.leaving.now]
    const supervisor = new Supervisor(drive, stops, context)
    const done = (exit: Exit.Exit<void, unknown>) => {
      supervisor.close()
      token.release()
      beside.fibers.delete(name)
      Deferred.doneUnsafe(ended, Effect.void)
      if (Exit.isFailure(exit) && !Cause.hasInterruptsOnly(exit.cause)) {
        beside.failure ??= exit
        // Nobody begins it again, or waits for anything else, before the loop has failed too.
        drive.token.cancel(cannotGoOn)
      }
      wake(drive)
    }
    const body = Effect.uninterruptible(Effect.map(Effect.exit(work(supervisor)), done))
    return Effect.asVoid(Effect.forkDetach(body, { startImmediately: true }))
  })

/** How often something has ended beside the loop, or was told by {@link wake}. */
export const endedBeside = (drive: Drive): number => drive.beside?.ended ?? 0

/**
 * Waits until something has ended, or was told, since the run was last asked what happens next. What people act on is stored and told
 * before.
 */
export const awaitBeside = (scope: Scope, supervisor: Supervisor): Effect.Effect<void, JournalError> =>
  Effect.andThen(
    Effect.suspend(() => (scope.drive.staged.some(isActedOn) ? flush(scope.drive) : Effect.void)),
    waitBeside(scope, supervisor)
  )

const waitBeside = ({ drive, seen }: Scope, supervisor: Supervisor): Effect.Effect<void> =>
  Effect.suspend(() => {
    const { ended, waiting } = besideOf(drive)
    if (ended !== seen) return Effect.void
    return supervisor.waiting(
      Effect.callback<void>((resume) => {
        const unlinks: Array<() => void> = []
        let isOver = false
        const stop = () => {
          isOver = true
          waiting.delete(ready)
          for (const unlink of unlinks) unlink()
        }
        const ready = () => {
          stop()
          resume(Effect.void)
        }
        waiting.add(ready)
        unlinks.push(...supervisor.tokens.map((token) => token.onCancel(ready)))
        // One may be cancelled already: nobody listens to the others then.
        if (isOver) stop()
        return Effect.sync(stop)
      })
    )
  })

/** Tells the work on a sub-agent to stop. Whoever ends it waits for that. */
export const tellToStop = (drive: Drive, runId: RunId, reason: string): void => {
  drive.beside?.stopped.add(runId)
  drive.beside?.fibers.get(runId)?.token.cancel(reason)
}

/** Stops what goes on under these names, and waits until it has ended. */
export const stopBeside = (drive: Drive, names: ReadonlyArray<string>, reason: string): Effect.Effect<void> =>
  Effect.suspend(() => {
    if (drive.beside !== undefined) for (const name of names) drive.beside.stopped.add(name)
    const found = names.flatMap((name) => drive.beside?.fibers.get(name) ?? [])
    for (const { token } of found) token.cancel(reason)
    return Effect.forEach(found, ({ ended }) => Deferred.await(ended), { discard: true })
  })

/** Lets what was stopped be begun again: it has not been ended. */
export const allowAgain = (drive: Drive, names: ReadonlyArray<string>): void => {
  for (const name of names) drive.beside?.stopped.delete(name)
}

/** Waits until nothing goes on beside the loop. */
export const settleBeside = (drive: Drive): Effect.Effect<void> =>
  Effect.suspend(() => {
    const fibers = [...(drive.beside?.fibers.values() ?? [])]
    if (fibers.length === 0) return Effect.void
    // One may have started another before it ended.
    return Effect.andThen(
      Effect.forEach(fibers, ({ ended }) => Deferred.await(ended), { discard: true }),
      settleBeside(drive)
    )
  })
