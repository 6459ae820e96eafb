/**
 * The body of a tool call: starts the handler with its context, and stops it.
 *
 * A handler returns a value or a stream of items, or a promise or an effect of one of these. The supervisor stops the body and abandons it after the grace period.
 */
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import type * as Fiber from "effect/Fiber"
import * as Result from "effect/Result"
import * as Stream from "effect/Stream"
import { Reading, readStream } from "../../agent/internal/streamedResult.ts"
import { inSpan, isPromise, isTraced, supplied } from "../../agent/internal/userCode.ts"
import type { RunContext } from "../../domain/RunContext.ts"
import type { ToolCall } from "../../domain/RunState.ts"
import type { Shape as Sandbox } from "../../sandbox/Sandbox.ts"
import { readBlobs, unreadBlobs } from "../../tool/internal/blobs.ts"
import type { AnyTool } from "../../tool/Tool.ts"
import type { AgentRun } from "../internal/AgentRun.ts"
import { contextFor, contextInvalid } from "../internal/runContext.ts"
import type { Running } from "../internal/Supervisor.ts"
import { CallContext } from "./CallContext.ts"
import { requireStored, storedIn } from "./sessionContents.ts"
import { calledOf } from "./userCalls.ts"

/** Calls the handler. Returns its exit if the outcome is known synchronously, without a fiber; otherwise the running body. */
export const invoke = (
  run: AgentRun,
  call: ToolCall,
  tool: AnyTool,
  value: unknown,
  sandbox?: Sandbox
): Exit.Exit<unknown, unknown> | Running<unknown, unknown> => {
  const { context: runContext, runtime } = run.drive
  const own = contextFor(run, tool)
  if (Result.isFailure(own)) return Exit.fail(contextInvalid(run, tool, own.failure))
  const context = new CallContext(run, call, own.success as RunContext, sandbox)
  let isStopped = false
  /** Whether the handler's own effect runs, and not a promise or a stream. */
  let isInEffect = false
  let waiting: Fiber.Fiber<void> | undefined
  let reading: Reading | undefined
  const settled = <A>(promise: Promise<A>, outcome: (value: A) => Effect.Effect<unknown, unknown>) =>
    Effect.callback<unknown, unknown>((resume) => {
      // Any thenable counts as a promise.
      void Promise.resolve(promise).then(
        (value) => resume(outcome(value)),
        // After a stop, a rejection is how the handler ends, and not a failure.
        (cause: unknown) => resume(isStopped ? Exit.interrupt() : Exit.fail(cause))
      )
    })
  const read = (iterable: AsyncIterable<unknown>) => {
    reading = new Reading(iterable, context)
    if (isStopped) void reading.close()
    return settled(reading.read(), (exit) => {
      if (Exit.isSuccess(exit)) return readable(exit.value)
      return isStopped ? Exit.interrupt() : exit
    })
  }
  /** A result, once the bytes of the `Blob`s in it are read. */
  const readable = (out: unknown): Effect.Effect<unknown, unknown> => {
    const blobs = unreadBlobs(out)
    const stored = storedIn(out)
    const succeed = () =>
      stored.length === 0 ? Exit.succeed(out) : Effect.as(requireStored(run, stored), out)
    return blobs.length === 0 ? succeed() : Effect.uninterruptible(settled(readBlobs(blobs), succeed))
  }
  /** What the handler, its promise or its effect came to. */
  const outcomeOf = (out: unknown): Effect.Effect<unknown, unknown> => {
    try {
      switch (kindOf(out)) {
        case "effect":
          if (Exit.isExit(out) && (Exit.isFailure(out) || isReadable(out.value))) return out
          // An effect that an effect returns does not start after a stop.
          if (isStopped) return Exit.interrupt()
          isInEffect = true
          return supplied(
            runtime,
            Effect.interruptible(
              Effect.flatMap(out as AnyEffect, (inner) => {
                isInEffect = false
                return outcomeOf(inner)
              })
            )
          )
        case "promise":
          return settled(out as Promise<unknown>, outcomeOf)
        case "stream":
          return supplied(
            runtime,
            Effect.flatMap(Effect.interruptible(readStream(out as Stream.Stream<unknown>, context)), readable)
          )
        case "items":
          // Uninterruptible, so that it is closed within the grace period.
          return Effect.uninterruptible(read(out as AsyncIterable<unknown>))
        case "value":
          return readable(out)
      }
    } catch (cause) {
      return Exit.fail(cause)
    }
  }
  const begin = (): Effect.Effect<unknown, unknown> => {
    try {
      return outcomeOf(tool.options.handler(value, context))
    } catch (cause) {
      // A failure like a rejected promise, which the tool's retry schedule may repeat.
      return Exit.fail(cause)
    }
  }
  const body = isTraced(runContext)
    ? inSpan(runtime, calledOf(run, "handler", call, tool), Effect.suspend(begin))
    : begin()
  if (Exit.isExit(body)) {
    context.flush()
    return body as Exit.Exit<unknown, unknown>
  }
  // Only the handler's own effect is interruptible: a promise that resolves within its grace period has a result.
  const fiber = Effect.runForkWith(runContext)(body, { uninterruptible: true })
  const ended = fiber.pollUnsafe()
  if (ended !== undefined) {
    context.flush()
    return ended
  }
  return {
    follow: (observer) => {
      fiber.addObserver((exit) => {
        context.flush()
        observer.ended(exit)
      })
    },
    stop: () => {
      if (isStopped) return
      isStopped = true
      context.abort()
      void reading?.close()
      if (isInEffect && !isInterruptible(fiber))
        waiting = Effect.runForkWith(runContext)(interruptWhenPossible(fiber))
      else fiber.interruptUnsafe()
    },
    abandon: () => {
      waiting?.interruptUnsafe()
      if (waiting !== undefined) fiber.interruptUnsafe()
      context.flush()
    }
  }
}

/**
 * Whether an interruption takes effect at once. Effect drops the value of an uninterruptible region that ends after an interruption, so the
 * interruption of such a region waits for its end. Without Effect's own field, every fiber counts as interruptible.
 */
const isInterruptible = (fiber: Fiber.Fiber<unknown, unknown>): boolean =>
  (fiber as { readonly interruptible?: boolean }).interruptible !== false

const interruptWhenPossible = (fiber: Fiber.Fiber<unknown, unknown>): Effect.Effect<void> =>
  Effect.suspend(() => {
    if (fiber.pollUnsafe() !== undefined) return Effect.void
    if (isInterruptible(fiber)) return Effect.sync(() => fiber.interruptUnsafe())
    return Effect.flatMap(Effect.sleep(lookAgain), () => interruptWhenPossible(fiber))
  })

/** How soon a stopped effect is interrupted after the end of its uninterruptible region. */
const lookAgain = "5 millis"

type AnyEffect = Effect.Effect<unknown, unknown>

/** The kind of a handler's return value. A value that throws when it is inspected is `value`, since the handler has run. */
const kindOf = (out: unknown): "effect" | "promise" | "stream" | "items" | "value" => {
  if (typeof out !== "object" || out === null) return "value"
  try {
    if (Effect.isEffect(out)) return "effect"
    if (isPromise(out)) return "promise"
    if (Stream.isStream(out)) return "stream"
    return Symbol.asyncIterator in out && typeof out[Symbol.asyncIterator] === "function" ? "items" : "value"
  } catch {
    return "value"
  }
}

/** Whether a value can be shown without waiting. */
const isReadable = (out: unknown): boolean =>
  kindOf(out) === "value" && unreadBlobs(out).length === 0 && storedIn(out).length === 0
