/**
 * Starts and closes a runtime. Each happens once for all callers, and goes on if a fiber that waits for it is interrupted. A close
 * interrupts a start in progress.
 */
import * as Cause from "effect/Cause"
import * as Deferred from "effect/Deferred"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Scope from "effect/Scope"
import type { CancellationToken } from "../Cancellation.ts"
import type { AnyExtension, Runtime, Sandboxes } from "../RuntimeDefinition.ts"
import { type CloseStatus, ExtensionFailed, RuntimeClosed } from "../RuntimeError.ts"
import { contextOf } from "./configuration.ts"
import type { LiveRuns } from "./LiveRuns.ts"
import { call, describeRefusal } from "./userCode.ts"

/** The parts of a runtime that its start and close need. */
export interface LifecycleOptions {
  readonly agent: string
  readonly extensions: ReadonlyArray<AnyExtension>
  readonly cancellation: CancellationToken
  readonly closing: CancellationToken
  readonly runs: LiveRuns
  readonly sandboxes: Sandboxes
  readonly closeTimeout: Duration.Input
  readonly runtime: () => Runtime
}

/** The start and close of a runtime; see `Runtime`. */
export interface Lifecycle {
  readonly start: Effect.Effect<void, RuntimeClosed | ExtensionFailed>
  readonly close: (status: CloseStatus) => Effect.Effect<void>
  readonly closed: () => CloseStatus | undefined
}

export const makeLifecycle = (options: LifecycleOptions): Lifecycle => {
  const { agent, cancellation, closeTimeout, closing, extensions, runs, sandboxes } = options
  const closeMs = Duration.toMillis(Duration.fromInputUnsafe(closeTimeout))
  const opened: Array<AnyExtension> = []
  let closed: CloseStatus | undefined
  let opening: Fiber.Fiber<unknown, unknown> | undefined
  // Resources that an extension acquires in `onStart` are released after all extensions have closed.
  const resources = Scope.makeUnsafe()
  const lasting = <A>(out: A): A =>
    Effect.isEffect(out) ? (Effect.provideService(out, Scope.Scope, resources) as A) : out
  const calledOf = (code: string, { name: extension }: AnyExtension) => ({ code, agent, extension })

  const open = Effect.gen(function* () {
    for (const extension of extensions) {
      const runtime = options.runtime()
      const starting = () => extension.onStart?.(contextOf(runtime))
      yield* Effect.mapError(
        call(runtime, calledOf("onStart", extension), () => lasting(starting())),
        (cause) =>
          new ExtensionFailed({
            extension: extension.name,
            during: "start",
            description: describeRefusal(runtime, cause)
          })
      )
      opened.push(extension)
    }
  })

  const shut = (status: CloseStatus) =>
    Effect.gen(function* () {
      if (opening !== undefined) yield* Effect.timeoutOption(Fiber.interrupt(opening), closeTimeout)
      yield* Effect.timeoutOption(runs.ended, closeTimeout)
      for (const extension of opened.toReversed()) {
        const runtime = options.runtime()
        const closing = () => extension.onClose?.(status, contextOf(runtime))
        // The next extension is closed even if this one fails; `call` has logged the failure.
        yield* Effect.ignoreCause(call(runtime, calledOf("onClose", extension), closing, closeMs))
      }
      // Released after the extensions, which may use them. A provider that does not return is abandoned.
      const releasing = yield* Effect.forkDetach(sandboxes.close)
      yield* Effect.timeoutOption(Fiber.await(releasing), closeTimeout)
      yield* Effect.timeoutOption(Scope.close(resources, Exit.void), closeTimeout)
    })

  let shutting: Effect.Effect<void> | undefined
  const close = (status: CloseStatus): Effect.Effect<void> =>
    Effect.suspend(() => {
      if (shutting !== undefined) return shutting
      closed = status
      shutting = once(shut(status))
      const reason =
        status === "completed" ? "The runtime was closed." : `The runtime was closed (${status}).`
      // First the stored runs are suspended, so that the second token cancels only the others.
      closing.cancel(reason)
      cancellation.cancel(reason)
      return shutting
    })

  const starting = once(
    // A failed start closes the runtime, unless a close has interrupted the start.
    Effect.onError(open, () => {
      if (closed !== undefined) return Effect.void
      opening = undefined
      return close("error")
    }),
    (fiber) => {
      opening = fiber
    }
  )

  const refused = (status: CloseStatus) => Effect.fail(new RuntimeClosed({ agent, status }))
  const start: Lifecycle["start"] = Effect.suspend((): Lifecycle["start"] => {
    if (closed !== undefined) return refused(closed)
    return Effect.catchCause(starting, (cause): Lifecycle["start"] =>
      closed !== undefined && Cause.hasInterruptsOnly(cause) ? refused(closed) : Effect.failCause(cause)
    )
  })

  return {
    start,
    close,
    closed: () => closed
  }
}

/** Runs an effect once, in a detached fiber. All callers wait for the same result. */
const once = <A, E>(
  effect: Effect.Effect<A, E>,
  onFork: (fiber: Fiber.Fiber<unknown, unknown>) => void = () => {}
): Effect.Effect<A, E> => {
  let done: Deferred.Deferred<A, E> | undefined
  return Effect.uninterruptibleMask((restore) => {
    if (done !== undefined) return restore(Deferred.await(done))
    const end = (done = Deferred.makeUnsafe<A, E>())
    return Effect.flatMap(Effect.forkDetach(Deferred.into(effect, end)), (fiber) => {
      onFork(fiber)
      return restore(Deferred.await(end))
    })
  })
}
