/**
 * Holds: what a handler returns when the result of its call comes later.
 *
 * A handler that returns a hold has done its work. The call opens a request of the kind `timer` or `external`, and the run is held like any
 * other: no process and no memory is needed until the time has come, or until the result arrives. User code is never called again to find
 * the place where it stopped.
 *
 * @since 0.1.0
 */
import type * as DateTime from "effect/DateTime"
import type * as Duration from "effect/Duration"
import { shapeOf, string } from "../domain/internal/misfits.ts"
import { millisOf } from "../domain/internal/untyped.ts"
import { OptionsInvalid, problemOf } from "../domain/OptionsInvalid.ts"
import { finiteDuration, lastDate, timeKind, timeOf } from "./internal/times.ts"
import { tokenKind } from "./internal/tokenKind.ts"

/** A symbol, so that no result that came from outside as JSON is taken for a hold. */
const holdTag: unique symbol = Symbol.for("@fermata/sdk/tool/Hold")

/** A hold until a time. Made by {@link wait}. */
export interface Wait {
  readonly [holdTag]: "timer"
  /** When the wait ends, in milliseconds since 1970; absent if `forMs` counts from the end of the handler instead. */
  readonly until?: number
  readonly forMs?: number
  readonly reason?: string
}

/** A hold until the result of the call arrives from outside. Made by {@link pending}. */
export interface Pending {
  readonly [holdTag]: "external"
  readonly token?: string
  readonly expiresAt?: number
  readonly expiresMs?: number
  readonly reason?: string
}

/** What a handler returns when the result of its call comes later. */
export type Hold = Wait | Pending

/** How long to wait: until a time, or for a time from the end of the handler on. */
export type WaitOptions = (
  | { readonly until: DateTime.DateTime.Input; readonly for?: never }
  | { readonly for: Duration.Input; readonly until?: never }
) & {
  /** What the call waits for, as `pending` and `explain` show it. */
  readonly reason?: string
}

const waitShape = shapeOf<{ until: unknown; for: unknown; reason: unknown }>({
  until: timeKind,
  for: finiteDuration,
  reason: string
})

/**
 * Makes the hold that a handler returns to hold its call, and with it the run, until a time. At that time, a worker or a handle continues
 * the run, and the result of the call says that the wait is over. If the time has passed already, the call completes at once.
 *
 * **Example** (Looking again tomorrow)
 *
 * ```ts run
 * import { Hold, Tool } from "@fermata/sdk"
 *
 * const snooze = Tool.make("snooze", {
 *   safety: "readOnly",
 *   handler: () => Hold.wait({ for: "1 day", reason: "the report comes overnight" })
 * })
 * ```
 *
 * **Errors**
 *
 * Throws `OptionsInvalid` for an unknown key, a value that is no time or no duration, and unless exactly one of `until` and `for` is given.
 *
 * @category constructors
 * @since 0.1.0
 */
export const wait = (options: WaitOptions): Wait => {
  const problem = problemOf("wait", options ?? null, waitShape)
  if (problem !== undefined) throw problem
  const { for: given, reason, until } = options
  if ((until === undefined) === (given === undefined)) {
    throw either("wait", 'take either "until" or "for"')
  }
  return {
    [holdTag]: "timer",
    ...(until === undefined ? { forMs: millisOf(given) ?? 0 } : { until: timeOf(until) ?? 0 }),
    ...(reason === undefined ? {} : { reason })
  }
}

/** How a result from outside finds the call, and for how long the call waits for it. */
export type PendingOptions = {
  /**
   * The name of the work in the system that does it, such as the id of a job, of 1 to 512 characters. No other call of the store may have it.
   * Default: the idempotency key of the call, which the handler passes to that system before it does the work.
   */
  readonly token?: string
  /** What the call waits for, as `pending` and `explain` show it. */
  readonly reason?: string
} & (
  | {
      /** When the call fails if no result has come. Default: never. */
      readonly expiresAt?: DateTime.DateTime.Input
      readonly expiresIn?: never
    }
  | {
      /** How long after the end of the handler the call fails if no result has come. Default: never. */
      readonly expiresIn?: Duration.Input
      readonly expiresAt?: never
    }
)

const pendingShape = shapeOf<{ token: unknown; expiresAt: unknown; expiresIn: unknown; reason: unknown }>({
  token: tokenKind,
  expiresAt: timeKind,
  expiresIn: finiteDuration,
  reason: string
})

/**
 * Makes the hold that a handler returns to hold its call, and with it the run, until `completeStored` or `Fermata.complete` delivers the
 * result for the token: from a webhook, for example, in any process. After the expiry, if there is one, the call fails.
 *
 * **Details**
 *
 * The result is shown to the model as if the handler had returned it: scrubbed, and within the tool's `maxResultLength`. A person can
 * supply it, too, or fail the call. If the process dies before the hold is recorded, the call is in doubt, as after any other crash, unless
 * the tool's `reconcile` determines its outcome, for example with the same hold. With `external`, a call in doubt takes the result, too.
 *
 * **Example** (Starting a job that ends elsewhere)
 *
 * ```ts run
 * import { Hold, Tool } from "@fermata/sdk"
 *
 * const render = Tool.make("render", {
 *   external: true,
 *   handler: async (_, { idempotencyKey }) => {
 *     // await jobs.start({ callback: `https://example.com/done/${idempotencyKey}` })
 *     return Hold.pending({ expiresIn: "1 day" })
 *   }
 * })
 * ```
 *
 * **Errors**
 *
 * Throws `OptionsInvalid` for an unknown key and a value of the wrong kind, and if both `expiresAt` and `expiresIn` are given.
 *
 * @category constructors
 * @since 0.1.0
 */
export const pending = (options: PendingOptions = {}): Pending => {
  const problem = problemOf("pending", options, pendingShape)
  if (problem !== undefined) throw problem
  const { expiresAt, expiresIn, reason, token } = options
  if (expiresAt !== undefined && expiresIn !== undefined) {
    throw either("pending", 'take "expiresAt" or "expiresIn", and not both')
  }
  return {
    [holdTag]: "external",
    ...(token === undefined ? {} : { token }),
    ...(expiresAt === undefined ? {} : { expiresAt: timeOf(expiresAt) ?? 0 }),
    ...(expiresIn === undefined ? {} : { expiresMs: millisOf(expiresIn) ?? 0 }),
    ...(reason === undefined ? {} : { reason })
  }
}

const either = (of: string, what: string): OptionsInvalid => {
  const place = `the options of ${of}`
  return new OptionsInvalid({ of, misfits: [{ place, problem: `${place} ${what}` }] })
}

/** Whether a hold waits for a result from outside. */
export const isPending = (hold: Hold): hold is Pending => hold[holdTag] === "external"

/** The hold that a handler returned; `undefined` for any other value, also for one that throws when it is inspected. */
export const holdOf = (value: unknown): Hold | undefined => {
  try {
    return typeof value === "object" && value !== null && holdTag in value ? (value as Hold) : undefined
  } catch {
    return undefined
  }
}

/**
 * When a hold that is recorded at `at` ends, in milliseconds since 1970, at most at the last time of `Date`; `undefined` if it has no end.
 */
export const endOf = (hold: Hold, at: number): number | undefined => {
  const { after, by } = isPending(hold)
    ? { by: hold.expiresAt, after: hold.expiresMs }
    : { by: hold.until, after: hold.forMs }
  const end = by ?? (after === undefined ? undefined : at + after)
  return end === undefined ? undefined : Math.min(Math.ceil(end), lastDate)
}
