/**
 * The next time at which an open request expires, or is announced to expire soon, in SQL: two searches in an index for each agent.
 */
import * as Arr from "effect/Array"
import * as Effect from "effect/Effect"
import type { Fragment } from "effect/sql/Statement"
import type { RunStorePort } from "../../RunStorePort.ts"
import { latestTime } from "../bounds.ts"
import type { SqlAccess } from "./access.ts"
import { allAgents } from "./ready.ts"

/** The number of agents of one statement. */
const mostAgents = 500

/** Makes the query for the next due time. */
export const makeNextDue = (access: SqlAccess): RunStorePort["nextDue"] => {
  const { query, run, sql } = access

  const earliest = (named: Fragment, after: number) => {
    const first = (column: string, isOpen: string) => {
      const at = sql.literal(column)
      const inOrder = sql.onDialectOrElse({
        // Postgres would read the requests of all agents in the order of their expiry for an equal agent.
        pg: () => sql`(entry.agent, ${at}) > (named.agent, ${after}) AND (entry.agent, ${at}) <= (named.agent, ${latestTime})
          ORDER BY entry.agent, ${at}`,
        orElse: () =>
          sql`entry.agent = named.agent AND ${at} > ${after} AND ${at} <= ${latestTime} ORDER BY ${at}`
      })
      return sql`SELECT (SELECT ${at} FROM fermata_requests AS entry
        WHERE entry.status = 'open' AND ${sql.literal(isOpen)} AND ${inOrder} LIMIT 1) AS at FROM named`
    }
    const times = [
      first("warn_at", "warn_at IS NOT NULL"),
      first("expires_at", "warn_at IS NULL AND on_expiry = 'deny' AND expires_at IS NOT NULL")
    ]
    const rows = run(
      sql<{ readonly at: number | null }>`WITH RECURSIVE ${named}
        SELECT min(at) AS at FROM (${sql.join(" UNION ALL ", false)(times)}) AS due`
    )
    return Effect.map(query("nextDue", rows), ([row]) => (row?.at == null ? Infinity : Number(row.at)))
  }

  const namedAgents = (agents: ReadonlyArray<string>) =>
    sql`named (agent) AS (VALUES ${sql.csv(agents.map((agent) => sql`(${agent})`))})`

  return ({ after = -latestTime, agents } = {}) => {
    const parts =
      agents === undefined
        ? [sql`${allAgents(access)}, named (agent) AS (SELECT agent FROM names WHERE agent IS NOT NULL)`]
        : Arr.chunksOf([...new Set(agents)], mostAgents).map(namedAgents)
    return Effect.map(
      Effect.forEach(parts, (named) => earliest(named, after)),
      (times) => {
        const due = Math.min(...times)
        return due === Infinity ? undefined : due
      }
    )
  }
}
