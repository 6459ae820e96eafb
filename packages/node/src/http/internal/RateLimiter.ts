/**
 * Limits the requests of each caller by a token bucket. A bucket that is full again is forgotten.
 */
import type { RateLimit } from "../HttpOptions.ts"

interface Bucket {
  left: number
  at: number
}

/** The number of buckets above which full ones are forgotten. */
const mostBuckets = 10_000

export class RateLimiter {
  private readonly limit: RateLimit
  private readonly buckets = new Map<string, Bucket>()

  constructor(limit: RateLimit) {
    this.limit = limit
  }

  /** Takes one request of `key` at the time `now`, in milliseconds. Returns 0, or the milliseconds until the next one may come. */
  take(key: string, now: number): number {
    const { burst, perSecond } = this.limit
    const bucket = this.buckets.get(key) ?? { left: burst, at: now }
    const left = Math.min(burst, bucket.left + (Math.max(0, now - bucket.at) * perSecond) / 1000)
    if (!this.buckets.has(key) && this.buckets.size >= mostBuckets) this.forget(now)
    this.buckets.set(key, { left: left >= 1 ? left - 1 : left, at: now })
    return left >= 1 ? 0 : Math.ceil(((1 - left) / perSecond) * 1000)
  }

  private forget(now: number): void {
    const { burst, perSecond } = this.limit
    for (const [key, { at, left }] of this.buckets)
      if (left + ((now - at) * perSecond) / 1000 >= burst) this.buckets.delete(key)
  }
}
