/**
 * Counts the secrets that were removed from texts before they were written, by type. Neither a secret nor its hash is kept.
 */
import * as Context from "effect/Context"
import * as Fiber from "effect/Fiber"
import * as Metric from "effect/Metric"

/**
 * The number of secrets that were removed from the texts that runs of this process write: an Effect metric, the counter
 * `fermata.redactions`, with the type of the secret in the attribute `type`, such as `password`.
 *
 * **Details**
 *
 * A secret counts once in each text in which it is written, and again when a failed write is repeated. What is only published or logged, such as
 * deltas and causes, does not count. A scrubber of your own counts if it writes `[REDACTED:type]`.
 *
 * **Example** (Reading the count of a type)
 *
 * ```ts run
 * import { Scrubber } from "@fermata/sdk"
 * import { Effect, Metric } from "effect"
 *
 * const passwords = Metric.withAttributes(Scrubber.redactions, { type: "password" })
 * console.log(Effect.runSync(Metric.value(passwords)).count)
 * ```
 *
 * @category metrics
 * @since 0.1.0
 */
export const redactions: Metric.Counter<number> = Metric.counter("fermata.redactions", {
  description: "Secrets that were removed from the texts that runs write",
  incremental: true
})

/** Returns `written`, which replaces `given`, and counts the secrets that were removed from it. */
export const counted = <A>(given: A, written: A): A => {
  if (written !== given) count(textOf(given), textOf(written))
  return written
}

const textOf = (value: unknown): string => (typeof value === "string" ? value : JSON.stringify(value))

const placeholders = /\[REDACTED:([a-z0-9-]{1,80})\]/g

const typesIn = (text: string): ReadonlyMap<string, number> => {
  const types = new Map<string, number>()
  for (const [, type = ""] of text.matchAll(placeholders)) types.set(type, (types.get(type) ?? 0) + 1)
  return types
}

const count = (given: string, written: string): void => {
  const before = typesIn(given)
  const context = Fiber.getCurrent()?.context ?? Context.empty()
  for (const [type, after] of typesIn(written)) {
    const removed = after - (before.get(type) ?? 0)
    if (removed > 0) Metric.withAttributes(redactions, { type }).updateUnsafe(removed, context)
  }
}
