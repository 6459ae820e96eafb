/**
 * The conditions on leases in SQL: whether a lease is in force, and whether a run can be claimed.
 *
 * A lease ends at a time of the database's clock. If that clock is set back, the lease of a dead process would end far in the future.
 * Therefore the length of a lease is stored with it, and a run whose lease ends later than twice that length from now can be claimed.
 * Until another process claims the run, the owner of the lease keeps it: a change of the clock alone takes no run from a live process, and
 * the owner's next renewal, within the length, makes the lease normal again. If the clock was set back by less than the length, no other
 * process can claim the run before that renewal.
 *
 * The length belongs to the claim whose epoch is stored in `lease_epoch`. An earlier version of Fermata on the same database claims
 * without a length; then only the end counts. A lease that ends later than the longest possible lease is not in force.
 */
import type { Fragment } from "effect/sql/Statement"
import type { Lease } from "../../RunStorePort.ts"
import { latestTime, longestLeaseMs } from "../bounds.ts"
import type { SqlAccess } from "./access.ts"

/** Whether a row of `fermata_runs` is leased, as other processes see it. */
export const isLeased = (access: SqlAccess): Fragment =>
  access.sql`(lease_until > ${access.now} AND NOT ${isFromFuture(access)})`

/** Whether a row of `fermata_runs` can be claimed: the negation of {@link isLeased}, also for rows without a lease. */
export const isFree = (access: SqlAccess): Fragment =>
  access.sql`(lease_until IS NULL OR lease_until <= ${access.now} OR ${isFromFuture(access)})`

const isFromFuture = ({ now, sql }: SqlAccess) =>
  sql`((lease_epoch = epoch AND lease_until - 2 * lease_ms > ${now}) IS TRUE OR lease_until - ${2 * longestLeaseMs} > ${now})`

/** Whether the end of a lease is not a valid time. Such a lease is not in force, and the run can be removed. */
export const isDamaged = ({ sql }: SqlAccess): Fragment =>
  sql`(lease_until IS NOT NULL AND NOT lease_until BETWEEN 0 AND ${latestTime})`

/** The condition that fences a write: the run was not claimed since this lease was given, and the lease has not expired. */
export const isInForce = ({ now, sql }: SqlAccess, lease: Lease): Fragment =>
  sql`run_id = ${lease.runId} AND epoch = ${lease.epoch} AND owner = ${lease.owner} AND lease_until > ${now}`
