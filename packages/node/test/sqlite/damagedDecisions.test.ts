import { assert, describe, it } from "@effect/vitest"
import { agent, approve, createFermata, type Fermata, isRunStoreError, tool } from "@fermata/node"
import { ScriptedModel } from "@fermata/sdk/testing"
import * as Effect from "effect/Effect"
import * as SqliteStore from "../../src/SqliteStore.ts"
import { temporaryFile } from "../temporaryStore.ts"
import { foreign } from "./fixtures.ts"

const open = (store: string, ran: Array<string>, by = "ann") => {
  const pay = tool("pay", {
    handler: (_, { callId, runId }) => {
      ran.push(`${runId} ${callId}`)
      return "paid"
    },
    approval: { expiresIn: "1 hour" }
  })
  const { client } = ScriptedModel.make(({ turn }) => (turn <= 2 ? { calls: [{ tool: "pay" }] } : "Done."))
  return createFermata({ agents: [agent("clerk", { tools: [pay] })], model: client, store, by })
}

/** Two runs that have acted on one approval and are held on another. */
const heldTwice = Effect.gen(function* () {
  const filename = yield* temporaryFile
  yield* Effect.promise(async () => {
    await using fermata = await open(filename, [])
    for (const runId of ["bad", "other"]) {
      await fermata.runPrompt("clerk", "pay twice", { runId })
      await fermata.decide(`${runId}.r1`, approve())
      await fermata.resume(runId)
    }
  })
  return filename
})

/** The store after the damage: the problems that the check reports, and a program over it whose bodies `ran` records. */
const after = (
  damage: string,
  body: (opened: {
    readonly fermata: Fermata.Fermata
    readonly ran: ReadonlyArray<string>
    readonly problems: ReadonlyArray<string>
  }) => Promise<void>
) =>
  Effect.gen(function* () {
    const filename = yield* heldTwice
    foreign(filename, (database) => database.exec(damage))
    const { problems } = yield* SqliteStore.check({ filename })
    yield* Effect.promise(async () => {
      const ran: Array<string> = []
      await using fermata = await open(filename, ran)
      await body({ fermata, ran, problems })
    })
  })

/** The runs that a worker takes up until `other`, and then two runs that are started meanwhile, have completed. */
const worked = async (fermata: Fermata.Fermata): Promise<ReadonlyArray<string>> => {
  const taken: Array<string> = []
  const stop = new AbortController()
  let looked = Promise.withResolvers<void>()
  const until = async (what: string) => {
    while (!taken.includes(what)) {
      await looked.promise
      looked = Promise.withResolvers()
    }
  }
  const work = fermata.work({
    signal: stop.signal,
    pollInterval: 50,
    onTakenUp: ({ error, runId, status }) => {
      taken.push(`${runId} ${error?._tag ?? status}`)
      looked.resolve()
    }
  })
  await fermata.decide("other.r2", approve())
  await until("other completed")
  for (const runId of ["later", "last"]) {
    await fermata.runPrompt("clerk", "pay twice", { runId })
    await fermata.decide(`${runId}.r1`, approve())
    await until(`${runId} held`)
    await fermata.decide(`${runId}.r2`, approve())
    await until(`${runId} completed`)
  }
  stop.abort()
  await work
  return taken
}

/** The entries of the run `bad`. */
const ofBad = (taken: ReadonlyArray<string>) => taken.filter((run) => run.startsWith("bad"))

/** A worker retries a failing run after growing pauses, so that a busy machine may see more than one attempt. */
const assertStopped = (taken: ReadonlyArray<string>) => {
  assert.deepStrictEqual([...new Set(ofBad(taken))], ["bad RunStoreError"])
  assert.isBelow(ofBad(taken).length, 10)
}

const unreadable = async (what: Promise<unknown>): Promise<string> => {
  const error = await what.then(
    () => assert.fail("it did not fail"),
    (error: unknown) => error
  )
  if (!isRunStoreError(error)) return assert.fail(String(error))
  assert.strictEqual(error.reason._tag, "StoreUnreadable")
  return error.message
}

const decided = (decision: object) =>
  `UPDATE fermata_requests SET status = 'decided', decided_at = 1, decided_by = 'eve',
    decision = '${JSON.stringify({ requestId: "bad.r2", by: "eve", at: 1, ...decision })}' WHERE request_id = 'bad.r2'`

describe("a forged decision in a damaged store", () => {
  for (const [what, damage, says] of [
    [
      "the run has acted on already",
      "UPDATE fermata_requests SET status = 'decided' WHERE request_id = 'bad.r1'",
      "the request bad.r1, which its journal has decided already"
    ],
    [
      "replaces the one that the run has acted on",
      `UPDATE fermata_requests SET status = 'decided', decided_at = 1, decided_by = 'eve',
        decision = '{"_tag":"deny","requestId":"bad.r1","by":"eve","at":1}' WHERE request_id = 'bad.r1'`,
      "the request bad.r1, which its journal has decided already"
    ],
    ["is of another kind than its request", decided({ _tag: "answer", answer: "x" }), "(decision)"],
    ["tops up what is no budget", decided({ _tag: "topUp", limit: 5 }), "(decision)"],
    ["was made about other arguments", decided({ _tag: "approve", digest: "zzz" }), "(decision)"]
  ] as const) {
    it.live(`fails its run alone, and a worker does not spin on it: one that ${what}`, () =>
      after(damage, async ({ fermata, problems, ran }) => {
        assert.isNotEmpty(problems)
        const taken = await worked(fermata)
        assertStopped(taken)
        assert.include(await unreadable(fermata.resume("bad")), says)
        assert.isEmpty(ofBad(ran))
        await fermata.remove("bad")
        assert.isEmpty(ofBad((await fermata.runs()).map(({ runId }) => runId)))
      })
    )
  }

  it.live("on a request that was reopened fails its run alone", () =>
    after(
      "UPDATE fermata_requests SET status = 'open', decision = NULL, decided_at = NULL, decided_by = NULL WHERE request_id = 'bad.r1'",
      async ({ fermata, problems }) => {
        assert.include(problems.join(), "The request bad.r1 is shown, but the run bad does not wait for it")
        await fermata.decide("bad.r1", approve())
        assertStopped(await worked(fermata))
        assert.include(await unreadable(fermata.resume("bad")), "which its journal has decided already")
      }
    )
  )

  it.live("that differs from the one in the journal is reported by the check", () =>
    after(
      `UPDATE fermata_requests SET decided_at = 1, decided_by = 'eve',
        decision = '{"_tag":"deny","requestId":"bad.r1","by":"eve","at":1}' WHERE request_id = 'bad.r1'`,
      async ({ problems }) => {
        assert.deepStrictEqual(problems, [
          "The decision of the request bad.r1 is not the one that the run bad has acted on: restore a backup, or remove the run."
        ])
      }
    )
  )
})

describe("a damaged entry of a run or a request", () => {
  it.live("whose warning is always due makes a worker take its run up fewer than ten times", () =>
    after(
      "UPDATE fermata_requests SET warn_at = 1 WHERE request_id = 'bad.r2'",
      async ({ fermata, problems }) => {
        assert.include(problems.join(), "(warn_at)")
        const taken = await worked(fermata)
        assert.isBelow(ofBad(taken).length, 10)
      }
    )
  )

  it.live("whose id is not text is not taken up by a worker", () =>
    after(
      "UPDATE fermata_runs SET run_id = x'00ff', status = 'running', lease_until = NULL WHERE run_id = 'bad'",
      async ({ fermata, problems }) => {
        assert.isNotEmpty(problems)
        const taken = await worked(fermata)
        assert.deepStrictEqual(taken, [
          "other completed",
          "later held",
          "later completed",
          "last held",
          "last completed"
        ])
      }
    )
  )

  for (const [what, set] of [
    ["that is not a time", "lease_until = 'zz', owner = 'x'"],
    ["before 1970", "lease_until = -1, owner = 'x'"]
  ] as const) {
    it.live(`can be removed when it has a lease ${what}`, () =>
      after(`UPDATE fermata_runs SET ${set} WHERE run_id = 'bad'`, async ({ fermata }) => {
        assert.include(await unreadable(fermata.resume("bad")), "or remove the run")
        await fermata.remove("bad")
        assert.deepStrictEqual(await fermata.damagedRuns(), [])
      })
    )
  }

  it.live("with a lease beyond any possible end counts as not leased", () =>
    after(
      "UPDATE fermata_runs SET lease_until = 8e15, owner = 'x', lease_ms = NULL WHERE run_id = 'bad'",
      async ({ fermata, ran }) => {
        await fermata.decide("bad.r2", approve())
        assert.strictEqual((await fermata.resume("bad")).status, "completed")
        assert.lengthOf(ran, 1)
      }
    )
  )
})

describe("SqliteStore.check", () => {
  for (const by of ["ann\ud83d", "\ude00ann", "ann\u0000", "ann\u202e"]) {
    it.live(`reports no problem after decisions by ${JSON.stringify(by)}`, () =>
      Effect.gen(function* () {
        const filename = yield* temporaryFile
        yield* Effect.promise(async () => {
          await using fermata = await open(filename, [], by)
          await fermata.runPrompt("clerk", `pay ${by}`, { runId: "r" })
          await fermata.decide("r.r1", approve({ grant: { scope: "session" } }), { note: by })
          await fermata.send("r", by)
          await fermata.cancel("r", by)
          await fermata.revokeGrant("r", "r.r1.grant")
        })
        assert.deepStrictEqual((yield* SqliteStore.check({ filename })).problems, [])
        yield* Effect.promise(async () => {
          await using fermata = await open(filename, [], by)
          await fermata.resume("r")
          const [given] = await fermata.grants()
          assert.strictEqual(given?.grant.by, by)
        })
        assert.deepStrictEqual((yield* SqliteStore.check({ filename })).problems, [])
      })
    )
  }
})
