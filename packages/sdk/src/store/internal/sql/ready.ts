/**
 * The ready runs in SQL: for each reason a list, ordered by the time since when its runs are ready.
 *
 * A list merges one branch for each agent. A branch reads an index of the matching rows of this agent, from its place on, and no more rows
 * than the page needs. So neither the number of ready runs nor the runs of other agents slow a page down.
 */
import * as Arr from "effect/Array"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import type { Fragment } from "effect/sql/Statement"
import type { RunId } from "../../../domain/Id.ts"
import type { ReadyRun, RunStorePort } from "../../RunStorePort.ts"
import { latestTime } from "../bounds.ts"
import { type Found, type Places, readReady, reasons } from "../readyPages.ts"
import type { SqlAccess } from "./access.ts"
import { isFree } from "./lease.ts"
import { agentAtWork } from "./rows.ts"

interface Row {
  readonly list: number
  readonly at: number
  readonly run_id: RunId
  readonly agent: string
  readonly has_expired: number | boolean
}

/** A list of ready runs: where its rows are, and the column by whose time they are ordered. */
interface List {
  readonly reason: ReadyRun["reason"]
  readonly at: string
  /** The tables. Rows of another table than that of runs are `entry`. */
  readonly from: Fragment
  readonly where: Fragment
  /** The columns of the run's id and of the agent in the index. */
  readonly id: string
  readonly agent: string
  readonly hasExpired?: Fragment
}

/** The number of agents whose branches one statement has. */
const mostAgents = 50

const byPlace = (a: Found, b: Found): number => a.at - b.at || (a.runId < b.runId ? -1 : 1)

/** The parameters of a composed statement, which stand for the values of a page. */
const slots = {
  now: ":now",
  limit: ":limit",
  agent: (index: number) => `:agent ${index}`,
  at: (reason: string) => `:${reason} at`,
  runId: (reason: string) => `:${reason} run`
}

/** The names of the agents of all runs, and a null, as a part of `WITH RECURSIVE`: one search in an index for each. */
export const allAgents = ({ sql }: SqlAccess): Fragment => sql`names (agent) AS (
    SELECT min(agent) FROM fermata_runs
    UNION ALL SELECT (SELECT min(agent) FROM fermata_runs AS run WHERE run.agent > names.agent)
      FROM names WHERE names.agent IS NOT NULL
  )`

/** Makes the query for ready runs. */
export const makeReady = (access: SqlAccess): RunStorePort["ready"] => {
  const { byCancellation, byRun, byStatus, inLists, query, run, sql } = access
  const free = isFree(access)
  const union = sql.join(" UNION ALL ", false)
  // In SQLite, a damaged id may have another type, so that no operation could use it.
  const isIdText = sql.onDialectOrElse({
    sqlite: () => sql` AND typeof(run.run_id) = 'text'`,
    orElse: () => sql``
  })

  /** The runs that are held and have an entry in another table. `CROSS JOIN` keeps SQLite from starting with all held runs. */
  const held = (table: string, condition: Fragment) => ({
    from: sql`${sql(table)} AS entry CROSS JOIN fermata_runs AS run`,
    where: sql`run.run_id = entry.run_id AND run.status = 'held' AND run.cancel_reason IS NULL AND ${condition}`,
    id: "entry.run_id",
    agent: "entry.agent"
  })
  const other = (condition: Fragment) =>
    sql`EXISTS (SELECT 1 FROM fermata_requests AS other ${byRun} WHERE other.run_id = entry.run_id AND ${condition})`
  const isDecided = sql`other.status = 'decided'`
  const hasMessage = sql`EXISTS (SELECT 1 FROM fermata_messages AS message
    WHERE message.run_id = entry.run_id AND message.status = 'waiting')`

  const lists = (now: string): ReadonlyArray<List> => {
    const hasExpired = sql`other.status = 'open' AND other.on_expiry = 'deny' AND other.expires_at <= ${now}`
    return [
      {
        reason: "orphaned",
        at: "run.created_at",
        from: sql`fermata_runs AS run ${byStatus}`,
        where: sql`run.status = 'running'`,
        id: "run.run_id",
        agent: agentAtWork
      },
      {
        reason: "cancelled",
        at: "run.created_at",
        from: sql`fermata_runs AS run ${byCancellation}`,
        where: sql`run.cancel_reason IS NOT NULL AND run.status IN ('running', 'held') AND run.status = 'held'`,
        id: "run.run_id",
        agent: "run.agent"
      },
      {
        reason: "decided",
        at: "entry.decided_at",
        // Of several decisions, the first one.
        ...held(
          "fermata_requests",
          sql`entry.status = 'decided' AND NOT ${other(
            sql`${isDecided} AND (other.decided_at, other.request_id) < (entry.decided_at, entry.request_id)`
          )}`
        )
      },
      {
        reason: "message",
        at: "entry.sent_at",
        ...held(
          "fermata_messages",
          sql`entry.status = 'waiting' AND NOT EXISTS (SELECT 1 FROM fermata_messages AS message
            WHERE message.run_id = entry.run_id AND message.status = 'waiting' AND message.position < entry.position
          ) AND NOT ${other(isDecided)}`
        )
      },
      {
        reason: "expired",
        at: "entry.expires_at",
        ...held(
          "fermata_requests",
          sql`entry.status = 'open' AND entry.warn_at IS NULL AND entry.on_expiry = 'deny' AND entry.expires_at IS NOT NULL
            AND entry.expires_at <= ${now} AND NOT ${hasMessage} AND NOT ${other(
              sql`(${isDecided} OR (${hasExpired} AND other.warn_at IS NULL
                AND (other.expires_at, other.request_id) < (entry.expires_at, entry.request_id)))`
            )}`
        ),
        hasExpired: sql`1 = 1`
      },
      {
        // A request whose warning the journal does not have may also have expired since.
        reason: "expiring",
        at: "entry.warn_at",
        ...held(
          "fermata_requests",
          sql`entry.status = 'open' AND entry.warn_at IS NOT NULL AND entry.warn_at <= ${now} AND NOT ${hasMessage}
            AND NOT ${other(
              sql`(${isDecided} OR (${hasExpired} AND other.warn_at IS NULL) OR (other.status = 'open'
                AND (other.warn_at, other.request_id) < (entry.warn_at, entry.request_id)))`
            )}`
        ),
        // Postgres would make a list of all expired requests for an EXISTS here.
        hasExpired: sql`(SELECT count(*) FROM fermata_requests AS other ${byRun}
          WHERE other.run_id = entry.run_id AND ${hasExpired}) > 0`
      }
    ]
  }

  const branchesOf = (list: List, index: number, agents: ReadonlyArray<string>): Fragment => {
    const [agent, at, runId] = [sql.literal(list.agent), sql.literal(list.at), sql.literal(list.id)]
    const branch = (isOfAgent: Fragment) =>
      sql`SELECT ${sql.literal(String(index))} AS list, ${at} AS at, ${runId} AS run_id, run.agent AS agent,
          ${list.hasExpired ?? sql`1 = 0`} AS has_expired
        FROM ${list.from} WHERE ${list.where} AND ${isOfAgent} AND ${at} <= ${latestTime}
          AND (${at}, ${runId}) > (${slots.at(list.reason)}, ${slots.runId(list.reason)}) AND ${free}${isIdText}`
    const branches = agents.map((name) => branch(sql`${agent} = ${name}`))
    // A message that an earlier version of Fermata has stored.
    if (list.reason === "message")
      branches.push(branch(sql`${agent} IS NULL AND ${sql.in("run.agent", agents)}`))
    const inOrder = sql.literal("at, run_id")
    return sql`SELECT * FROM (${access.merged(branches, inOrder, slots.limit)} ORDER BY ${inOrder} LIMIT ${slots.limit} + 0) AS listed`
  }

  /** The statement for a number of agents. It is composed once, because that takes longer than to run it; its parameters are slots. */
  const composed = new Map<number, readonly [text: string, parameters: ReadonlyArray<unknown>]>()
  const compose = (count: number) => {
    const known = composed.get(count)
    if (known !== undefined) return known
    const agents = Array.from({ length: count }, (_, index) => slots.agent(index))
    const parts = lists(slots.now).map((list, index) => branchesOf(list, index, agents))
    const made = sql`SELECT * FROM (${union(parts)}) AS ready ${inLists}`.compile()
    composed.set(count, made)
    return made
  }

  const readSome = Effect.fnUntraced(function* (
    agents: ReadonlyArray<string>,
    places: Places,
    limit: number
  ) {
    const now = yield* Clock.currentTimeMillis
    const values = new Map<unknown, string | number>([
      [slots.now, now],
      [slots.limit, limit],
      ...agents.map((name, index) => [slots.agent(index), name] as const),
      ...reasons.flatMap((reason) => {
        const [at, runId] = places[reason] ?? [-latestTime, ""]
        return [[slots.at(reason), at] as const, [slots.runId(reason), runId] as const]
      })
    ])
    const [text, parameters] = compose(agents.length)
    const rows = yield* query(
      "ready",
      run(
        sql.unsafe<Row>(
          text,
          parameters.map((parameter) => values.get(parameter) ?? parameter)
        )
      )
    )
    const found = reasons.map((): Array<Found> => [])
    for (const { agent, at, has_expired: hasExpired, list: index, run_id: runId } of rows) {
      const list = reasons[Number(index)]!
      const reason = list === "expiring" && hasExpired ? "expired" : list
      found[Number(index)]!.push({ runId, agent, reason, list, at: Number(at) })
    }
    return found
  })

  /** Reads the lists of many agents in several statements, because a database limits the branches and the parameters of one. */
  const readLists = Effect.fnUntraced(function* (
    agents: ReadonlyArray<string>,
    places: Places,
    limit: number
  ) {
    const parts = yield* Effect.forEach(Arr.chunksOf(agents, mostAgents), (some) =>
      readSome(some, places, limit)
    )
    return reasons.map((_, index) => {
      const found = parts.map((lists) => lists[index]!)
      return found.length === 1 ? found[0]! : found.flat().toSorted(byPlace).slice(0, limit)
    })
  })

  const readAgents = Effect.map(
    query(
      "ready",
      run(
        sql<{
          readonly agent: string
        }>`WITH RECURSIVE ${allAgents(access)} SELECT agent FROM names WHERE agent IS NOT NULL`
      )
    ),
    (rows) => rows.map(({ agent }) => agent)
  )

  return Effect.fnUntraced(function* (filter = {}) {
    const agents = [...new Set(filter.agents ?? (yield* readAgents))]
    if (agents.length === 0) return []
    return yield* readReady(filter, (places, limit) => readLists(agents, places, limit))
  })
}
