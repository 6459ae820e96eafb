/**
 * What callers pass as sizes and times, brought into bounds that every database takes.
 */
import * as Duration from "effect/Duration"

/** Page size: 100 by default, at most 1,000. */
export const pageSize = (limit: number | undefined): number =>
  limit === undefined || Number.isNaN(limit) ? 100 : Math.min(1000, Math.max(0, Math.trunc(limit)))

/** A place in a journal: a whole number, from 0, that a 64-bit column takes. */
export const position = (value: number | undefined, fallback: number): number =>
  value === undefined || Number.isNaN(value)
    ? fallback
    : Math.min(Number.MAX_SAFE_INTEGER, Math.max(0, Math.trunc(value)))

/** The last moment that has a date, as milliseconds: the first is as far before 1970. */
export const latestTime = 8.64e15

/** A thousand years. */
export const longestLeaseMs = 1000 * 365 * 24 * 60 * 60 * 1000

/** Milliseconds of a lease: whole, not negative, and finite. */
export const leaseMs = (ttl: Duration.Input): number =>
  Math.min(longestLeaseMs, Math.max(0, Math.ceil(Duration.toMillis(ttl))))
