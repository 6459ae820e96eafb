/**
 * When a lease is in force, in SQL: until its end. For other processes it is over earlier if it was given in the future.
 *
 * A lease ends at a time of the database's clock. Where that clock is set back, the end of a lease that a dead process left would be
 * far away. So its length is stored with it: a run whose lease ends later than twice its own length from now can be claimed. Its
 * owner keeps it until another process does: a change of the clock alone takes a run from no live process, and the owner's next
 * renewal, which comes within the length, makes the lease like any other. For a change of less than the length no other process can
 * claim the run before that. The length is that of the claim with its epoch; an earlier version of Fermata on the same database
 * claims without one, and is judged by the end alone. A lease that ends later than any that is given is none, whatever its length.
 */
import type { Fragment } from "effect/sql/Statement"
import type { Lease } from "../../RunStorePort.ts"
import { latestTime, longestLeaseMs } from "../bounds.ts"
import type { SqlAccess } from "./access.ts"

/** Whether a run is leased as other processes see it, for rows of `fermata_runs`. */
export const isLeased = (access: SqlAccess): Fragment =>
  access.sql`(lease_until > ${access.now} AND NOT ${isFromFuture(access)})`

/** Whether a run can be claimed: the opposite, also where it has no lease. */
export const isFree = (access: SqlAccess): Fragment =>
  access.sql`(lease_until IS NULL OR lease_until <= ${access.now} OR ${isFromFuture(access)})`

const isFromFuture = ({ now, sql }: SqlAccess) =>
  sql`((lease_epoch = epoch AND lease_until - 2 * lease_ms > ${now}) IS TRUE OR lease_until - ${2 * longestLeaseMs} > ${now})`

/** Whether the end of a lease is no time: no process can hold the run by it, and the run can be removed. */
export const isDamaged = ({ sql }: SqlAccess): Fragment =>
  sql`(lease_until IS NOT NULL AND NOT lease_until BETWEEN 0 AND ${latestTime})`

/** The condition that fences a write: this lease, not claimed by another owner since, and not a moment longer than it lasts. */
export const isInForce = ({ now, sql }: SqlAccess, lease: Lease): Fragment =>
  sql`run_id = ${lease.runId} AND epoch = ${lease.epoch} AND owner = ${lease.owner} AND lease_until > ${now}`
