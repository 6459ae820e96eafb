import { readFileSync } from "node:fs"
import { join } from "node:path"
import { DatabaseSync } from "node:sqlite"
import { assert, describe, it } from "@effect/vitest"
import { createFermata } from "@fermata/node"
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import * as PostgresStore from "../../src/PostgresStore.ts"
import { give, granting, model } from "../fixtures/stores/granting.ts"
import { temporaryFile } from "../temporaryStore.ts"
import { emptySchema, withSql } from "./database.ts"

type Stored = NonNullable<Parameters<typeof createFermata>[0]["store"]>

const opened = (store: Stored) =>
  Effect.gen(function* () {
    const { agents, effects } = granting()
    const fermata = yield* Effect.acquireRelease(
      Effect.promise(() => createFermata({ agents, model: model(), store, by: "bob" })),
      (fermata) => Effect.promise(() => fermata.close())
    )
    return { effects, fermata }
  })

/** A file of a version whose tables had no place for grants. */
const oldFile = Effect.gen(function* () {
  const filename = yield* temporaryFile
  const database = new DatabaseSync(filename)
  database.exec(readFileSync(join(import.meta.dirname, "../fixtures/stores/grants/tables-6.sql"), "utf8"))
  database.close()
  return filename
})

/** The same runs in a database whose tables are reverted to those of that version. */
const oldDatabase = Effect.gen(function* () {
  const { url } = yield* emptySchema
  const store = PostgresStore.layer({ url })
  yield* Effect.scoped(Effect.flatMap(opened(store), ({ fermata }) => Effect.promise(() => give(fermata))))
  yield* withSql(url, (sql) =>
    Effect.all([
      sql`DROP TABLE fermata_grants, fermata_blobs, fermata_blob_pieces, fermata_blob_uses, fermata_blob_directory`,
      sql`ALTER TABLE fermata_runs DROP COLUMN lease_ms, DROP COLUMN lease_epoch, DROP COLUMN followed`,
      sql`ALTER TABLE fermata_messages DROP COLUMN digest, DROP COLUMN agent, DROP COLUMN reopens`,
      sql`DROP INDEX fermata_requests_expired, fermata_requests_group`,
      sql`ALTER TABLE fermata_requests DROP COLUMN token`,
      sql`DELETE FROM fermata_schema WHERE version > 6`
    ])
  )
  return store
})

describe.each([
  ["SQLite", oldFile as Effect.Effect<Stored, never, Scope.Scope>],
  ["Postgres", Effect.orDie(oldDatabase)]
] as const)("grants of a version without a table for grants, on %s", (_, old) => {
  it.live("are listed with their arguments and revocations", () =>
    Effect.gen(function* () {
      const { fermata } = yield* opened(yield* old)
      const grants = yield* Effect.promise(() => fermata.grants())
      assert.deepStrictEqual(
        grants.map(({ grant, runId, sessionId }) => [
          grant.id as string,
          runId as string,
          sessionId as string,
          grant.agent,
          grant.tool,
          grant.arguments,
          grant.exact,
          grant.by,
          grant.revoked?.by
        ]),
        [
          ["kept.r1.grant", "kept", "of-kept", "post", "mail", {}, undefined, "ann", undefined],
          ["taken.r1.grant", "taken", "of-taken", "post", "mail", {}, undefined, "ann", "eve"],
          ["exact.r1.grant", "exact", "of-exact", "post", "mail", {}, { to: "ann" }, "ann", undefined],
          ["unheard.r1.grant", "unheard", "of-unheard", "post", "mail", {}, undefined, "ann", undefined]
        ]
      )
    }).pipe(Effect.scoped)
  )

  it.live("cover the same calls as before, and none after their revocation", () =>
    Effect.gen(function* () {
      const { effects, fermata } = yield* opened(yield* old)
      const says = async (prompt: string, sessionId: string) =>
        (await fermata.runPrompt("post", prompt, { sessionId })).status
      yield* Effect.promise(async () => {
        assert.strictEqual(await says("cid", "of-kept"), "completed")
        assert.strictEqual(await says("ann", "of-exact"), "completed")
        assert.strictEqual(await says("cid", "of-exact"), "interrupted")
        assert.deepStrictEqual(effects, ["mail to cid", "mail to ann"])
        await fermata.revokeGrant("kept", "kept.r1.grant")
        assert.strictEqual(await says("cid", "of-kept"), "interrupted")
        // A fork from a revision at which the grant was in force.
        const fork = await fermata.fork("taken", "cid", { newRunId: "fork" }).catch(() => undefined)
        assert.notStrictEqual(fork?.status, "completed")
        // The run that has not read its grant opens a request for the second call, which was shown before.
        await fermata.revokeGrant("unheard", "unheard.r1.grant")
        const unheard = await fermata.resume("unheard")
        assert.strictEqual(unheard.status, "interrupted")
        assert.notInclude(effects, "mail to ben")
      })
    }).pipe(Effect.scoped)
  )
})
