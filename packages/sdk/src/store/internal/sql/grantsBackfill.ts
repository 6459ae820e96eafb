/**
 * Fills the table of grants from the decisions and journals of stores without that table. Frozen with the migration that uses it.
 */
import * as Effect from "effect/Effect"
import type { SqlClient } from "effect/sql/SqlClient"
import type { SqlError } from "effect/sql/SqlError"

type Unknown<Names extends string> = { readonly [Name in Names]?: unknown }

/** The parts of a request that are read. A row without them is skipped; its grant is inserted when it is first used. */
type Approval = Unknown<"_tag" | "requestId" | "tool" | "safety" | "arguments"> & {
  readonly agentPath?: ReadonlyArray<unknown>
}
type StoredDecision = Unknown<"by" | "at" | "arguments"> & {
  readonly grant?: Unknown<"scope" | "arguments" | "expiresAt" | "inherit">
}

const parse = <A>(text: string): A | undefined => {
  try {
    const value: unknown = JSON.parse(text)
    return typeof value === "object" && value !== null ? (value as A) : undefined
  } catch {
    return undefined
  }
}

/** Inserts a row for each grant, with its revocation if a journal contains one. */
export const backfillGrants = (sql: SqlClient): Effect.Effect<unknown, SqlError> =>
  Effect.gen(function* () {
    const decisions = yield* sql<{
      readonly run_id: string
      readonly session_id: string
      readonly request: string
      readonly decision: string
    }>`SELECT run_id, session_id, request, decision FROM fermata_requests WHERE decision LIKE '%"grant":{%'`
    for (const row of decisions) {
      const request = parse<Approval>(row.request)
      const decision = parse<StoredDecision>(row.decision)
      const grant = decision?.grant
      if (request?._tag !== "approval" || decision === undefined || grant === undefined) continue
      const agent = request.agentPath?.at(-1)
      const { expiresAt } = grant
      const id = `${String(request.requestId)}.grant`
      const data = {
        id,
        tool: request.tool,
        agent,
        safety: request.safety,
        scope: grant.scope,
        arguments: grant.arguments ?? {},
        ...(grant.arguments === undefined ? { exact: decision.arguments ?? request.arguments } : {}),
        by: decision.by,
        at: decision.at,
        ...(expiresAt === undefined ? {} : { expiresAt }),
        inherit: grant.inherit === true
      }
      yield* sql`INSERT INTO fermata_grants (grant_id, run_id, session_id, agent, tool, scope, given_at, expires_at, data)
        VALUES (${id}, ${row.run_id}, ${row.session_id}, ${String(agent)}, ${String(request.tool)}, ${String(grant.scope)},
          ${Number(decision.at)}, ${typeof expiresAt === "number" ? expiresAt : null}, ${JSON.stringify(data)})
        ON CONFLICT (grant_id) DO NOTHING`
    }
    const rows = yield* sql<{ readonly events: string }>`SELECT events FROM fermata_journal
      WHERE events LIKE '%"grant.revoked"%'`
    for (const { events } of rows) {
      for (const { at, by, grantId } of revocationsIn(parse(events))) {
        yield* sql`UPDATE fermata_grants SET revoked_at = ${at}, revocation = ${JSON.stringify({ by, at })}
          WHERE grant_id = ${grantId} AND revoked_at IS NULL`
      }
    }
  })

interface Revocation {
  readonly grantId: string
  readonly by: string
  readonly at: number
}

/** The revocations among the events of a row, also those inside sub-agents. */
const revocationsIn = (events: unknown): ReadonlyArray<Revocation> =>
  Array.isArray(events) ? events.flatMap((event: unknown) => revocationIn(event)) : []

const revocationIn = (event: unknown): ReadonlyArray<Revocation> => {
  let inner = event as { readonly _tag?: unknown; readonly event?: unknown } & Partial<Revocation>
  while (inner?._tag === "child.advanced") inner = inner.event as typeof inner
  const { at, by, grantId } = inner ?? {}
  return inner?._tag === "grant.revoked" &&
    typeof grantId === "string" &&
    typeof by === "string" &&
    typeof at === "number"
    ? [{ grantId, by, at }]
    : []
}
