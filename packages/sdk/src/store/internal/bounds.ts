/**
 * Clamps sizes, revisions and times from callers to ranges that every database accepts.
 */
import * as Duration from "effect/Duration"

/** Page size: 100 by default, from 0 to 1,000. */
export const pageSize = (limit: number | undefined): number =>
  limit === undefined || Number.isNaN(limit) ? 100 : Math.min(1000, Math.max(0, Math.trunc(limit)))

/** A revision, clamped to a safe integer from 0. */
export const position = (value: number | undefined, fallback: number): number =>
  value === undefined || Number.isNaN(value)
    ? fallback
    : Math.min(Number.MAX_SAFE_INTEGER, Math.max(0, Math.trunc(value)))

/** The latest time of a JavaScript `Date`, in milliseconds. The earliest is its negative. */
export const latestTime = 8.64e15

/** The maximum length of a lease: a thousand years. */
export const longestLeaseMs = 1000 * 365 * 24 * 60 * 60 * 1000

/** The length of a lease in whole milliseconds, from 0 to {@link longestLeaseMs}. */
export const leaseMs = (ttl: Duration.Input): number =>
  Math.min(longestLeaseMs, Math.max(0, Math.ceil(Duration.toMillis(ttl))))
