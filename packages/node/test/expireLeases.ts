/**
 * The end of the leases of a process that was killed, without the wait for it: a short lease would end in a process that is only slow.
 */
import { foreign } from "./sqlite/fixtures.ts"

/** Ends all leases in a store that no process has open. */
export const expireLeases = (store: string): void =>
  foreign(store, (database) =>
    database.exec("UPDATE fermata_runs SET lease_until = 1 WHERE lease_until IS NOT NULL")
  )
