/**
 * Calls user code: tool bodies, rules, callbacks and instructions.
 *
 * Each call runs in the context of the run, in a scope of its own, in a span of its own if the program has a tracer, and with an optional
 * timeout. {@link call} logs a failure, so its callers do not.
 */
import * as Cause from "effect/Cause"
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
import { counted } from "../../tool/internal/scrub/redactions.ts"
import { contained, make as makeScrubber, type Scrubber } from "../../tool/Scrubber.ts"
import type { AnyServices, AnyTool } from "../../tool/Tool.ts"
import { ToolFailure } from "../../tool/ToolError.ts"
import type { Awaitable } from "../../tool/ToolOptions.ts"
import { CancellationToken } from "../Cancellation.ts"
import { redactCause } from "./causes.ts"
import { setDeadline } from "./deadlines.ts"

/** The scrubber and the services with which user code runs; usually a runtime. */
export interface Surroundings {
  /** The services that its effects need. */
  readonly services: AnyServices
  readonly scrubber: Scrubber
  readonly options: { readonly cancelGrace?: Duration.Input }
}

/** Publishes a value to a subscriber. An exception or a rejection of the subscriber is ignored. */
export const notify = <A>(subscriber: ((value: A) => void) | undefined, value: A): void => {
  if (subscriber !== undefined) callOut(() => subscriber(value))
}

/** Calls a callback. An exception or a rejection of the callback is ignored, or passed to `onFailure`. */
export const callOut = (callback: () => unknown, onFailure: (cause: unknown) => void = () => {}): void => {
  try {
    const out = callback()
    if (isPromise(out)) out.then(undefined, onFailure)
  } catch (cause) {
    onFailure(cause)
  }
}

/** Makes a function that publishes to a subscriber. A failure of the subscriber does not reach the publisher; the first one is logged. */
export const subscribed = <A>(
  runtime: Pick<Surroundings, "scrubber">,
  called: () => Called,
  context: () => Context.Context<never>,
  subscriber: (value: A) => unknown
): ((value: A) => void) => {
  const log = logFirst()
  const onFailure = (cause: unknown) => {
    Effect.runForkWith(context())(log(runtime, called(), Cause.fail(cause)))
  }
  return (value) => callOut(() => subscriber(value), onFailure)
}

/**
 * Makes a {@link logFailure} that logs the first failure of each callback only: one that fails at every update would otherwise fill the
 * log.
 */
export const logFirst = (): typeof logFailure => {
  // Most callbacks never fail, and a waiting run has to be small.
  let logged: Set<string> | undefined
  return (runtime, called, cause) =>
    Effect.suspend(() => {
      if (logged?.has(called.code) === true) return Effect.void
      logged = (logged ?? new Set()).add(called.code)
      return logFailure(runtime, called, cause, " Its next failures are not logged.")
    })
}

/**
 * Makes the function that calls hooks in the context of a run. It does not wait for promises and effects; the first failure of a hook is
 * logged.
 */
export const callHook = (
  { agent, ...runtime }: Surroundings & { readonly agent: { readonly name: string } } = unbound,
  context: Context.Context<never> = Context.empty()
) => {
  const log = logFirst()
  return (code: string, hook: ((notice: never) => unknown) | undefined, notice: object): void => {
    if (hook === undefined) return
    const out = attempt(() => (hook as (notice: unknown) => unknown)(notice))
    // Most hooks return nothing.
    if (typeof out !== "object" || out === null) return
    const run = "runId" in notice && typeof notice.runId === "string" ? { runId: notice.runId } : {}
    const called = { code, agent: agent.name, ...run }
    Effect.runForkWith(context)(call(runtime, called, () => out, undefined, log))
  }
}

/** For hooks without a runtime, as in `RuntimeHooks.observe`. */
const unbound = {
  agent: { name: "hooks" },
  services: Context.empty() as AnyServices,
  scrubber: contained(makeScrubber()),
  options: {}
}

/** Calls a function of the program. Returns an exception as a failed exit. */
export const attempt = <A>(begin: () => A): A | Exit.Exit<never> => {
  try {
    return begin()
  } catch (defect) {
    return Exit.die(defect)
  }
}

/** Calls a function that has to return an effect. Any other value, possible in programs without types, is a defect. */
export const attemptEffect = <A, E>(begin: () => Effect.Effect<A, E>): Effect.Effect<A, E> => {
  const out = attempt(begin)
  if (attempt(() => Effect.isEffect(out)) === true) return out
  ignoreRejection(out)
  return Exit.die(new TypeError("It returned a value that is not an effect."))
}

/** Ignores the rejection of a promise in a place that takes none, which would otherwise end the process. */
export const ignoreRejection = (value: unknown): void => {
  if (value instanceof Promise) value.catch(() => {})
}

/** Identifies a piece of user code, for the name of its span and for the annotations of its failure in the log. */
export interface Called {
  /** The key in the definition, such as `handler` or `needsApproval`. */
  readonly code: string
  readonly agent: string
  readonly runId?: string
  readonly tool?: string
  readonly callId?: string
  readonly extension?: string
}

/** The failure of user code that {@link call} did not await any longer. The code itself has not failed. */
export class AnsweredLate extends ToolFailure {}

/**
 * Calls user code and awaits its result, for at most `ms` milliseconds, in the context of the current fiber and in its own span and scope.
 * Without `ms`, there is no limit. An exception becomes a failure. Failures are logged here; callers do not log them again.
 */
export const call = <A>(
  runtime: Surroundings,
  called: Called,
  f: () => Awaitable<A, unknown>,
  ms?: number,
  log: typeof logFailure = logFailure
): Effect.Effect<A, unknown> => {
  const running = Effect.suspend((): Effect.Effect<A, unknown> => {
    const out = f()
    if (Effect.isEffect(out)) return supplied(runtime, out as Effect.Effect<A, unknown>)
    return isPromise<A>(out) ? fromPromise(out) : Effect.succeed(out as A)
  })
  const late = () => new AnsweredLate({ description: `it did not answer within ${ms} ms` })
  return inSpan(
    runtime,
    called,
    ms === undefined ? running : withTimeout(ms, graceMs(runtime), running, late)
  ).pipe(
    // If the caller is interrupted, this does not run. Code that interrupts itself counts as failed.
    Effect.tapCause((cause) => log(runtime, called, cause)),
    Effect.catchDefect((defect) => Effect.fail(defect))
  )
}

/**
 * Provides an effect of the program with the services that its runtime has captured, and with a scope that is closed when it ends. The
 * context of the run takes precedence over the captured services.
 */
export const supplied = <A, E>(
  { services }: Pick<Surroundings, "services">,
  effect: Effect.Effect<A, E>
): Effect.Effect<A, E> =>
  Effect.scoped(
    Effect.updateContext(effect, (current: Context.Context<never>) => Context.merge(services, current))
  )

/**
 * The services that a runtime captures from the context in which it is made. Properties of the fiber, such as its span, scope, log
 * annotations and clock, are left out and come from the run.
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

/** Whether the program has installed a tracer. Effect's native tracer exports nothing, so no spans are made for it. */
export const isTraced = (context: Context.Context<never>): boolean =>
  Context.get(context, Tracer.Tracer) !== Tracer.nativeTracer

/**
 * Runs the effect in a span of this name if the program has installed a tracer. Without one it makes no span, which would stay in memory
 * while a run waits.
 */
export const traced = <A, E, R>(effect: Effect.Effect<A, E, R>, name: string): Effect.Effect<A, E, R> =>
  Effect.withFiber(({ context }) =>
    // The stack trace would be retained as well.
    isTraced(context) ? Effect.withSpan(effect, name, { captureStackTrace: false }) : effect
  )

/** Runs user code in its own span, if the program has installed a tracer. The span ends with the redacted cause of a failure. */
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
            // Results may be confidential, so they are not part of a span.
            const end = Exit.isFailure(exit) ? Exit.failCause(redactCause(scrubber, exit.cause)) : Exit.void
            span.end(clock.currentTimeNanosUnsafe(), end)
          })
        )
      )
    )
  })

/** Logs a failure of user code, without secrets. `note` follows the sentence. */
export const logFailure = (
  { scrubber }: Pick<Surroundings, "scrubber">,
  called: Called,
  cause: Cause.Cause<unknown>,
  note = ""
): Effect.Effect<void> =>
  Effect.logWarning(
    sentence`The ${called.code} of ${called.tool ?? called.extension ?? called.agent} failed.${note}`,
    redactCause(scrubber, cause)
  ).pipe(Effect.annotateLogs({ ...called }), Effect.ignoreCause)

/** Awaits a promise of the program. The error is its rejection, of any type. */
const fromPromise = <A>(promise: Promise<A>): Effect.Effect<A, unknown> =>
  Effect.callback((resume) => {
    promise.then(
      (value) => resume(Effect.succeed(value)),
      (cause: unknown) => resume(Effect.fail(cause))
    )
  })

export const isPromise = <A>(value: unknown): value is Promise<A> =>
  typeof value === "object" && value !== null && "then" in value && typeof value.then === "function"

/** The grace period in milliseconds: how long interrupted user code may take to return. */
export const graceMs = ({ options }: Surroundings): number =>
  Math.min(longestMs, Duration.toMillis(Duration.fromInputUnsafe(options.cancelGrace ?? "2 seconds")))

/** The longest delay of a timer. A longer one fires at once. */
const longestMs = 2 ** 31 - 1

/** Runs user code with a timeout. Code that ignores its interruption is abandoned after `graceMs` milliseconds. */
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

/**
 * Describes an error, for a text that is written: without its stack, the secrets that the scrubber knows, and control characters. Never
 * throws.
 */
export const describe = (runtime: Surroundings, cause: unknown): string =>
  counted(messageOf(cause), describeRefusal(runtime, cause))

/** As {@link describe}, for an error that is returned to the caller and not written. */
export const describeRefusal = (runtime: Surroundings, cause: unknown): string => {
  try {
    return text(runtime.scrubber.scrub(messageOf(cause)))
  } catch {
    return "an error that cannot be shown"
  }
}

/** Describes the failure of a tool's call for the model: its message, followed by the encoded fields of a typed error. */
export const describeFailure = (runtime: Surroundings, { options }: AnyTool, error: unknown): string => {
  const fields = encodeFailure(options.failure, error)
  const message = describe(runtime, error)
  return fields === undefined
    ? message
    : `${message}\n${text(counted(fields, runtime.scrubber.scrub(fields)))}`
}
