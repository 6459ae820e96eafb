/**
 * Code of the program: what it is called with, what it returns, throws or rejects with, how long it may take, and how a failure of it is
 * shown. Tool bodies, rules, callbacks and instructions all run here.
 *
 * Each call has a scope of its own and a span of its own, runs under the context of the run, and its failure is logged once.
 */
import type * as Cause from "effect/Cause"
import * as Clock from "effect/Clock"
import * as Console from "effect/Console"
import * as Context from "effect/Context"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Random from "effect/Random"
import * as References from "effect/References"
import * as Scheduler from "effect/Scheduler"
import * as Scope from "effect/Scope"
import * as Tracer from "effect/Tracer"
import { messageOf, sentence, text } from "../../domain/Display.ts"
import { encodeFailure } from "../../tool/internal/encodeFailure.ts"
import { contained, make as makeScrubber, type Scrubber } from "../../tool/Scrubber.ts"
import type { AnyServices, AnyTool } from "../../tool/Tool.ts"
import { ToolFailure } from "../../tool/ToolError.ts"
import type { Awaitable } from "../../tool/ToolOptions.ts"
import { CancellationToken } from "../Cancellation.ts"
import { setDeadline } from "./deadlines.ts"
import { redactCause } from "./redactCause.ts"

/** What code of the program runs with: a runtime, most of the time. */
export interface Surroundings {
  /** The services that its effects need. */
  readonly services: AnyServices
  readonly scrubber: Scrubber
  readonly options: { readonly cancelGrace?: Duration.Input }
}

/** Calls a watcher of the program, to which updates are published. What it throws, or rejects with, ends here. */
export const notify = <A>(watcher: ((value: A) => void) | undefined, value: A): void => {
  if (watcher !== undefined) callOut(() => watcher(value))
}

/** Calls a callback of the program. What it throws, or rejects with, ends here. */
export const callOut = (callback: () => unknown): void => {
  const ignore = () => {}
  try {
    const out = callback()
    if (isPromise(out)) out.then(ignore, ignore)
  } catch {
    ignore()
  }
}

/** Calls the hooks of a runtime in the context of a run, and does not wait for what they return. A failure of one is logged. */
export const callHook =
  (
    { agent, ...runtime }: Surroundings & { readonly agent: { readonly name: string } } = unbound,
    context: Context.Context<never> = Context.empty()
  ) =>
  (code: string, hook: ((notice: never) => unknown) | undefined, notice: object): void => {
    if (hook === undefined) return
    const out = attempt(() => (hook as (notice: unknown) => unknown)(notice))
    // Most have nothing to wait for.
    if (typeof out !== "object" || out === null) return
    const run = "runId" in notice && typeof notice.runId === "string" ? { runId: notice.runId } : {}
    const called = { code, agent: agent.name, ...run }
    Effect.runForkWith(context)(call(runtime, called, () => out))
  }

/** For hooks that observe a run by themselves. */
const unbound = {
  agent: { name: "hooks" },
  services: Context.empty() as AnyServices,
  scrubber: contained(makeScrubber()),
  options: {}
}

/** What a function of the program returns; what it throws, as an exit. */
export const attempt = <A>(begin: () => A): A | Exit.Exit<never> => {
  try {
    return begin()
  } catch (defect) {
    return Exit.die(defect)
  }
}

/** The same of a function that has to return an effect, as a program without types may not. */
export const attemptEffect = <A, E>(begin: () => Effect.Effect<A, E>): Effect.Effect<A, E> => {
  const out = attempt(begin)
  if (attempt(() => Effect.isEffect(out)) === true) return out
  ignoreRejection(out)
  return Exit.die(new TypeError("It has returned something that is no effect."))
}

/** Keeps the rejection of a promise that stands where none belongs from ending the process. */
export const ignoreRejection = (value: unknown): void => {
  if (value instanceof Promise) value.catch(() => {})
}

/** Which code of the program is called, for which agent or call: the name of its span, and the annotations of its failure in the log. */
export interface Called {
  /** Its key in the definition, such as `handler` or `needsApproval`. */
  readonly code: string
  readonly agent: string
  readonly runId?: string
  readonly tool?: string
  readonly callId?: string
  readonly extension?: string
}

/**
 * Calls user code and waits for what it returns, `ms` milliseconds at most, under the context of the fiber that asks, in a span and a scope
 * of its own. What it throws is a failure. A failure is logged here, and nowhere else.
 */
export const call = <A>(
  runtime: Surroundings,
  called: Called,
  f: () => Awaitable<A, unknown>,
  ms?: number
): Effect.Effect<A, unknown> => {
  const running = Effect.suspend((): Effect.Effect<A, unknown> => {
    const out = f()
    if (Effect.isEffect(out)) return supplied(runtime, out as Effect.Effect<A, unknown>)
    return isPromise<A>(out) ? fromPromise(out) : Effect.succeed(out as A)
  })
  const late = () => new ToolFailure({ description: `it did not answer within ${ms} ms` })
  return inSpan(
    runtime,
    called,
    ms === undefined ? running : withTimeout(ms, graceMs(runtime), running, late)
  ).pipe(
    // Code that is stopped does not get here; code that interrupts itself has failed.
    Effect.tapCause((cause) => logFailure(runtime, called, cause)),
    Effect.catchDefect((defect) => Effect.fail(defect))
  )
}

/**
 * Gives an effect of the program the services that its runtime has captured, and a scope that is closed when it ends. Whatever the context
 * of the run has wins over what was captured.
 */
export const supplied = <A, E>(
  { services }: Pick<Surroundings, "services">,
  effect: Effect.Effect<A, E>
): Effect.Effect<A, E> =>
  Effect.scoped(
    Effect.updateContext(effect, (current: Context.Context<never>) => Context.merge(services, current))
  )

/**
 * What a runtime keeps of the context that it is made in: services. What belongs to the fiber that makes it, such as its span, its scope,
 * its log annotations and its clock, is taken from the run.
 */
export const servicesOf = (context: AnyServices): AnyServices => Context.omit(...ofFiber)(context)

const ofFiber = [
  ...Object.values(References),
  CancellationToken,
  Clock.Clock,
  Console.Console,
  Random.Random,
  Scheduler.Scheduler,
  Scope.Scope,
  Tracer.MinimumTraceLevel,
  Tracer.ParentSpan,
  Tracer.Tracer
]

/** Whether a tracer does something with spans: Effect's own keeps them in memory for nobody. */
export const isTraced = (context: Context.Context<never>): boolean =>
  Context.get(context, Tracer.Tracer) !== Tracer.nativeTracer

/** Runs user code in a span of its own, if there is a tracer that does something with it. The span ends with the cause of a failure. */
export const inSpan = <A, E, R>(
  { scrubber }: Pick<Surroundings, "scrubber">,
  { code, ...attributes }: Called,
  effect: Effect.Effect<A, E, R>
): Effect.Effect<A, E, R> =>
  Effect.withFiber(({ context }) => {
    if (!isTraced(context)) return effect
    return Effect.flatMap(Effect.makeSpan(`fermata.${code}`, { attributes }), (span) =>
      Effect.onExit(Effect.withParentSpan(effect, span, { captureStackTrace: false }), (exit) =>
        Clock.clockWith((clock) =>
          Effect.sync(() => {
            // What user code returns is not for a span.
            const end = Exit.isFailure(exit) ? Exit.failCause(redactCause(scrubber, exit.cause)) : Exit.void
            span.end(clock.currentTimeNanosUnsafe(), end)
          })
        )
      )
    )
  })

/** Logs how user code has failed, without secrets. */
export const logFailure = (
  { scrubber }: Pick<Surroundings, "scrubber">,
  called: Called,
  cause: Cause.Cause<unknown>
): Effect.Effect<void> =>
  Effect.logWarning(
    sentence`The ${called.code} of ${called.tool ?? called.extension ?? called.agent} failed.`,
    redactCause(scrubber, cause)
  ).pipe(Effect.annotateLogs({ ...called }), Effect.ignoreCause)

/** The promise of a program may be rejected with anything. */
const fromPromise = <A>(promise: Promise<A>): Effect.Effect<A, unknown> =>
  Effect.callback((resume) => {
    promise.then(
      (value) => resume(Effect.succeed(value)),
      (cause: unknown) => resume(Effect.fail(cause))
    )
  })

export const isPromise = <A>(value: unknown): value is Promise<A> =>
  typeof value === "object" && value !== null && "then" in value && typeof value.then === "function"

/** Milliseconds that something may take to end after it was interrupted. */
export const graceMs = ({ options }: Surroundings): number =>
  Math.min(longestMs, Duration.toMillis(Duration.fromInputUnsafe(options.cancelGrace ?? "2 seconds")))

/** A timer that is set to more goes off at once. */
const longestMs = 2 ** 31 - 1

/** Runs an effect of the program with a timeout. One that ignores its interruption is abandoned after `graceMs`. */
export const withTimeout = <A, E, E2, R>(
  ms: number,
  graceMs: number,
  effect: Effect.Effect<A, E, R>,
  late: () => E2
): Effect.Effect<A, E | E2, R> =>
  Effect.uninterruptibleMask((restore) =>
    Effect.flatMap(Effect.forkDetach(effect, { startImmediately: true, uninterruptible: false }), (fiber) => {
      const stop = Clock.clockWith((clock) =>
        Effect.callback<void>((resume) => {
          const stopped = () => resume(Effect.void)
          fiber.addObserver(stopped)
          fiber.interruptUnsafe()
          if (fiber.pollUnsafe() !== undefined) return
          if (graceMs <= 0) return stopped()
          fiber.addObserver(setDeadline(clock, graceMs, stopped))
        })
      )
      const orElse = () => Effect.andThen(stop, Effect.failSync(late))
      const waiting = Effect.timeoutOrElse(Fiber.join(fiber), { duration: ms, orElse })
      return Effect.onInterrupt(restore(waiting), () => stop)
    })
  )

/** What went wrong, in words that may be shown: no stack, no secret that the scrubber knows, no control characters. Never throws. */
export const describe = (runtime: Surroundings, cause: unknown): string => {
  try {
    return text(runtime.scrubber.scrub(messageOf(cause)))
  } catch {
    return "an error that cannot be shown"
  }
}

/** What went wrong with a call of a tool, for the model: the same words, and the encoded fields of a typed error. */
export const describeFailure = (runtime: Surroundings, { options }: AnyTool, error: unknown): string => {
  const fields = encodeFailure(options.failure, error)
  const said = describe(runtime, error)
  return fields === undefined ? said : `${said}\n${text(runtime.scrubber.scrub(fields))}`
}
