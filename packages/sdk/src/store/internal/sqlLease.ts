/**
 * When a lease is in force, in SQL: until its end, unless it was given in the future.
 *
 * A lease ends at a time of the database's clock. Where that clock is set back, the end of a lease that a dead process left would be
 * far away. So its length is stored with it: a lease that ends later than its own length from now is over. The length is that of the
 * claim with its epoch; an earlier version of Fermata on the same database claims without one, and is judged by the end alone.
 */
import type { Fragment } from "effect/sql/Statement"
import type { Lease } from "../RunStore.ts"
import type { SqlAccess } from "./sqlAccess.ts"

/** Whether somebody holds a run, for rows of `fermata_runs`. */
export const isLeased = (access: SqlAccess): Fragment =>
  access.sql`(lease_until > ${access.now} AND NOT ${isFromFuture(access)})`

/** Whether nobody holds a run: the opposite, also where it has no lease. */
export const isFree = (access: SqlAccess): Fragment =>
  access.sql`(lease_until IS NULL OR lease_until <= ${access.now} OR ${isFromFuture(access)})`

const isFromFuture = ({ now, sql }: SqlAccess) =>
  sql`(lease_epoch = epoch AND lease_until - lease_ms > ${now}) IS TRUE`

/** The condition that fences a write: this lease, and not a moment longer than it lasts. */
export const inForce = (access: SqlAccess, lease: Lease): Fragment =>
  access.sql`run_id = ${lease.runId} AND epoch = ${lease.epoch} AND owner = ${lease.owner} AND ${isLeased(access)}`
