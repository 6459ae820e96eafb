import { assert, describe, it } from "@effect/vitest"
import { agent, approve, createFermata, isRunExists, tool } from "@fermata/node"
import { ScriptedModel } from "@fermata/sdk/testing"
import * as Effect from "effect/Effect"
import * as SqliteStore from "../../src/SqliteStore.ts"
import { temporaryFile } from "../temporaryStore.ts"
import { foreign } from "./fixtures.ts"

const open = async (store: string) => {
  const ran: Array<string> = []
  const pay = tool("pay", {
    handler: (_, { runId }) => {
      ran.push(runId)
      return "paid"
    }
  })
  const { client } = ScriptedModel.make(({ messages }) =>
    messages.at(-1)?.role === "user" ? { calls: [{ tool: "pay" }] } : "Done."
  )
  const fermata = await createFermata({
    agents: [agent("clerk", { tools: [pay] })],
    model: client,
    store,
    by: "ann"
  })
  return { fermata, ran, [Symbol.asyncDispose]: () => fermata.close() }
}

const granting = approve({ grant: { scope: "session", arguments: {} } })

/** A run of the session `s` that was given a grant and has acted on it; then the damage. */
const after = (revoked: boolean, ...damage: ReadonlyArray<string>) =>
  Effect.gen(function* () {
    const filename = yield* temporaryFile
    yield* Effect.promise(async () => {
      await using opened = await open(filename)
      const { fermata } = opened
      await fermata.runPrompt("clerk", "pay", { runId: "x", sessionId: "s" })
      await fermata.decide("x.r1", granting)
      await fermata.resume("x")
      if (revoked) await fermata.revokeGrant("x", "x.r1.grant")
    })
    foreign(filename, (database) => damage.forEach((sql) => database.exec(sql)))
    return filename
  })

/** The outcome of later calls in the session. */
const later = (filename: string) =>
  Effect.promise(async () => {
    await using opened = await open(filename)
    const statuses: Array<string> = []
    for (const runId of ["y", "z"]) {
      const { status } = await opened.fermata.runPrompt("clerk", "pay", { runId, sessionId: "s" })
      statuses.push(status)
      for (const { request } of await opened.fermata.pending()) {
        await opened.fermata.decide(request.requestId, approve())
        await opened.fermata.resume(runId)
      }
    }
    return { statuses, ran: opened.ran }
  })

const gone = "DELETE FROM fermata_grants"

describe("a grant and its entry in the store", () => {
  for (const revoked of [true, false]) {
    it.live(
      `without the entry approves no call, and is reported by the check, where it ${revoked ? "was" : "was not"} revoked`,
      () =>
        Effect.gen(function* () {
          const filename = yield* after(revoked, gone)
          const lost =
            "The grant x.r1.grant of the run x is gone, and calls that rely on it need a new approval: restore a backup."
          assert.deepStrictEqual((yield* SqliteStore.check({ filename })).problems, [lost])
          const { ran, statuses } = yield* later(filename)
          assert.deepStrictEqual(statuses, ["interrupted", "interrupted"])
          assert.deepStrictEqual(ran, ["y", "z"])
          assert.deepStrictEqual((yield* SqliteStore.check({ filename })).problems, [lost])
        })
    )
  }

  it.live("with the entry passes the check, revoked or not", () =>
    Effect.gen(function* () {
      for (const [revoked, statuses] of [
        [true, ["interrupted", "interrupted"]],
        [false, ["completed", "completed"]]
      ] as const) {
        const filename = yield* after(revoked)
        assert.deepStrictEqual((yield* later(filename)).statuses, [...statuses])
        assert.deepStrictEqual((yield* SqliteStore.check({ filename })).problems, [])
      }
    })
  )
})

describe("a grant of an earlier version, which gave it without an entry while it had the store open", () => {
  it.live("covers calls after its run has acted on it, and its revocation holds", () =>
    Effect.gen(function* () {
      // The event as that version wrote it.
      const old = `UPDATE fermata_journal SET events = replace(events, ',"kept":"x.r1.grant"', '')`
      const filename = yield* after(false, gone, old)
      assert.deepStrictEqual((yield* SqliteStore.check({ filename })).problems, [])
      assert.deepStrictEqual((yield* later(filename)).statuses, ["completed", "completed"])
      yield* Effect.promise(async () => {
        await using opened = await open(filename)
        await opened.fermata.revokeGrant("x", "x.r1.grant")
        const asked = await opened.fermata.runPrompt("clerk", "pay", { runId: "u", sessionId: "s" })
        assert.strictEqual(asked.status, "interrupted")
      })
    })
  )

  it.live("is revoked by an archive of its run that is refused because the run exists", () =>
    Effect.gen(function* () {
      const old = `UPDATE fermata_journal SET events = replace(events, ',"kept":"x.r1.grant"', '')`
      const filename = yield* after(false, gone, old)
      const elsewhere = yield* temporaryFile
      yield* Effect.promise(async () => {
        await using here = await open(filename)
        await using there = await open(elsewhere)
        await there.fermata.importRun(await here.fermata.exportRun("x"))
        await there.fermata.revokeGrant("x", "x.r1.grant", { by: "ben" })
        foreign(filename, (database) => database.exec(gone))
        const refused = await there.fermata
          .exportRun("x")
          .then((archive) => here.fermata.importRun(archive))
          .catch((error: unknown) => error)
        assert.isTrue(isRunExists(refused))
        assert.deepInclude(refused as object, { archive: "older", revoked: ["x.r1.grant"] })
        assert.deepInclude((await here.fermata.grants())[0]?.grant.revoked, { by: "ben" })
      })
      assert.deepStrictEqual((yield* later(filename)).statuses, ["interrupted", "interrupted"])
    })
  )

  it.live("gets an entry when this version takes its decision into the journal", () =>
    Effect.gen(function* () {
      const filename = yield* temporaryFile
      yield* Effect.promise(async () => {
        await using opened = await open(filename)
        await opened.fermata.runPrompt("clerk", "pay", { runId: "x", sessionId: "s" })
        await opened.fermata.decide("x.r1", granting)
      })
      // As that version left it.
      foreign(filename, (database) => database.exec(gone))
      yield* Effect.promise(async () => {
        await using opened = await open(filename)
        await opened.fermata.resume("x")
        assert.deepStrictEqual(
          (await opened.fermata.grants()).map(({ grant }) => String(grant.id)),
          ["x.r1.grant"]
        )
      })
      assert.deepStrictEqual((yield* SqliteStore.check({ filename })).problems, [])
      assert.deepStrictEqual((yield* later(filename)).statuses, ["completed", "completed"])
    })
  )
})
