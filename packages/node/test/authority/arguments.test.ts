import { DatabaseSync } from "node:sqlite"
import { assert, describe, it } from "@effect/vitest"
import { agent, approve } from "@fermata/node"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { afterEach, vi } from "vitest"
import { z } from "zod"
import { doing, type Fermata, ops, programs, refusal } from "./programs.ts"

// Some tests set the time.
afterEach(() => {
  vi.useRealTimers()
})

/** Pays once, with these arguments. */
const paying = (args: { readonly [name: string]: Schema.Json }) =>
  programs(({ messages }) =>
    messages.at(-1)?.role === "user" ? { calls: [{ tool: "pay", arguments: args }] } : "done"
  )

const held = async (fermata: Fermata) => {
  const result = await fermata.runPrompt("ops", "go", { runId: "r", sessionId: "s" })
  if (result.status !== "interrupted") return assert.fail(result.status)
  const [request] = result.interruptions
  if (request?._tag !== "approval") return assert.fail(request?._tag)
  return request
}

const reasonIn = async (fermata: Fermata): Promise<string> => {
  const [pending] = await fermata.pending()
  return pending?.request._tag === "approval" ? (pending.request.reason ?? "") : "nothing is pending"
}

const withDefault = (amount: number) => z.object({ to: z.string(), amount: z.number().default(amount) })

const withEffectDefault = (amount: number) =>
  Schema.Struct({
    to: Schema.String,
    amount: Schema.Number.pipe(Schema.withDecodingDefaultKey(Effect.succeed(amount)))
  })

describe("the arguments that an approval request shows", () => {
  it("are those that the body gets: with defaults, without unknown keys, after transformations", async () => {
    const schemas: ReadonlyArray<readonly [object, Record<string, Schema.Json>, unknown]> = [
      [withDefault(1000), { to: "bob" }, { to: "bob", amount: 1000 }],
      [withEffectDefault(1000), { to: "bob" }, { to: "bob", amount: 1000 }],
      [z.object({ to: z.string() }), { to: "bob", force: true }, { to: "bob" }],
      [z.object({ euros: z.number().transform((euros) => euros * 100) }), { euros: 5 }, { euros: 500 }],
      [Schema.Struct({ amount: Schema.NumberFromString }), { amount: "5" }, { amount: 5 }]
    ]
    for (const [parameters, written, shown] of schemas) {
      await using p = paying(written)
      const fermata = await p.open(ops(doing(p.ran, "pay", { parameters })))
      const request = await held(fermata)
      assert.deepStrictEqual(request.arguments, shown)
      await fermata.decide(request, approve())
      assert.strictEqual((await fermata.resume("r")).status, "completed")
      assert.deepStrictEqual(p.ran, [`pay ${JSON.stringify(shown)}`])
    }
  })

  it("are those that the body gets although the schema computes another value each time", async () => {
    await using p = paying({ amount: 5 })
    let times = 0
    const parameters = z.object({ amount: z.number().transform((amount) => amount + ++times) })
    const fermata = await p.open(ops(doing(p.ran, "pay", { parameters })))
    const request = await held(fermata)
    await fermata.decide(request, approve())
    await fermata.resume("r")
    assert.deepStrictEqual(request.arguments, { amount: 6 })
    assert.deepStrictEqual(p.ran, ['pay {"amount":6}'])
  })

  it("are never replaced when a deploy changes a default or a transformation", async () => {
    const changes: ReadonlyArray<readonly [Record<string, Schema.Json>, object, object]> = [
      [{ to: "bob" }, withDefault(10), withDefault(5000)],
      [{ to: "bob" }, withEffectDefault(10), withEffectDefault(5000)],
      [
        { amount: 5 },
        z.object({ amount: z.number() }),
        z.object({ amount: z.number().transform((amount) => amount * 100) })
      ]
    ]
    for (const [written, before, after] of changes) {
      await using p = paying(written)
      const request = await held(await p.open(ops(doing(p.ran, "pay", { parameters: before }))))
      const next = await p.open(ops(doing(p.ran, "pay", { parameters: after })))
      await next.decide(request, approve())
      const result = await next.resume("r")
      const shown = `pay ${JSON.stringify(request.arguments)}`
      // A changed schema opens a new request unless it takes what was approved as it is.
      if (result.status === "completed") assert.deepStrictEqual(p.ran, [shown])
      else {
        assert.deepStrictEqual(p.ran, [])
        assert.match(await reasonIn(next), /have changed since|makes something else of its arguments/)
      }
    }
  })

  it("are requested again when they are not JSON and a deploy decodes them differently", async () => {
    const days = (more: number) =>
      z.object({
        on: z.string().transform((text) => new Date(Date.parse(text) + more * 86_400_000))
      })
    await using p = paying({ on: "2026-01-01" })
    const first = await p.open(ops(doing(p.ran, "pay", { parameters: days(0) })))
    const request = await held(first)
    assert.deepStrictEqual(request.arguments, { on: "2026-01-01T00:00:00.000Z" })
    await first.decide(request, approve())
    const next = await p.open(ops(doing(p.ran, "pay", { parameters: days(1) })))
    assert.strictEqual((await next.resume("r")).status, "interrupted")
    assert.deepStrictEqual(p.ran, [])
    assert.include(await reasonIn(next), "makes something else of its arguments")
    const [again] = await next.pending()
    await next.decide(again!, approve())
    assert.strictEqual((await next.resume("r")).status, "completed")
    assert.deepStrictEqual(p.ran, ['pay {"on":"2026-01-02T00:00:00.000Z"}'])
  })

  it("are requested again when the journal's arguments were changed after they were shown", async () => {
    await using p = paying({ to: "bobby" })
    const first = await p.open(ops(doing(p.ran, "pay", { parameters: z.object({ to: z.string() }) })))
    const request = await held(first)
    await first.close()
    const database = new DatabaseSync(p.file)
    database.exec("DELETE FROM fermata_checkpoints")
    const was = '"idempotent":false,"arguments":{"to":"bobby"}'
    const { changes } = database
      .prepare("UPDATE fermata_journal SET events = replace(events, ?, ?)")
      .run(was, was.replace("bobby", "mally"))
    database.close()
    assert.isAbove(Number(changes), 0)
    const next = await p.open(ops(doing(p.ran, "pay", { parameters: z.object({ to: z.string() }) })))
    await next.decide(request, approve())
    assert.strictEqual((await next.resume("r")).status, "interrupted")
    assert.deepStrictEqual(p.ran, [])
    assert.include(await reasonIn(next), "are not the ones that were approved")
    const [again] = await next.pending()
    await next.decide(again!, approve())
    assert.strictEqual((await next.resume("r")).status, "completed")
    assert.deepStrictEqual(p.ran, ['pay {"to":"bobby"}'])
  })

  it("cannot be approved when the stored request was changed", async () => {
    await using p = paying({ to: "bobby" })
    const first = await p.open(ops(doing(p.ran, "pay", { parameters: z.object({ to: z.string() }) })))
    await held(first)
    await first.close()
    const database = new DatabaseSync(p.file)
    database.exec("UPDATE fermata_requests SET request = replace(request, 'bobby', 'mally')")
    database.close()
    const next = await p.open(ops(doing(p.ran, "pay", { parameters: z.object({ to: z.string() }) })))
    const [pending] = await next.pending()
    assert.strictEqual((await refusal(next.decide(pending!, approve())))._tag, "ArgumentsChanged")
    assert.deepStrictEqual(p.ran, [])
  })
})

describe("edited arguments", () => {
  it("are refused when the schema decodes them to other values, which the error shows", async () => {
    await using p = paying({ to: "bob" })
    const fermata = await p.open(ops(doing(p.ran, "pay", { parameters: withDefault(1000) })))
    const request = await held(fermata)
    const edits: ReadonlyArray<readonly [object, string]> = [
      [{ to: "eve" }, '{"to":"eve","amount":1000}'],
      [{ to: "eve", amount: 5, force: true }, '{"to":"eve","amount":5}']
    ]
    for (const [edit, would] of edits) {
      const error = await refusal(fermata.decide(request, approve({ arguments: edit as never })))
      assert.strictEqual(error._tag, "EditedArgumentsInvalid")
      assert.include(error.message, would)
    }
    await fermata.decide(request, approve({ arguments: { to: "eve", amount: 5 } }))
    assert.strictEqual((await fermata.resume("r")).status, "completed")
    assert.deepStrictEqual(p.ran, ['pay {"to":"eve","amount":5}'])
  })

  it("are given in decoded form, as the request shows them", async () => {
    await using p = paying({ amount: "5" })
    const parameters = Schema.Struct({ amount: Schema.NumberFromString })
    const fermata = await p.open(ops(doing(p.ran, "pay", { parameters })))
    const request = await held(fermata)
    await fermata.decide(request, approve({ arguments: { amount: 7 } }))
    assert.strictEqual((await fermata.resume("r")).status, "completed")
    assert.deepStrictEqual(p.ran, ['pay {"amount":7}'])
  })
})

describe("a call that needs no approval and waits behind a pending one", () => {
  const both = () =>
    programs(({ messages }) =>
      messages.at(-1)?.role === "user" ? { calls: [{ tool: "deploy" }, { tool: "wipe" }] } : "done"
    )
  const after: Record<string, object> = {
    "needs approval now": { needsApproval: true },
    "needs approval by its own rule now": { needsApproval: () => true },
    "is privileged now": { safety: "privileged" }
  }
  for (const [name, options] of Object.entries(after)) {
    it(`opens a request when its tool ${name}`, async () => {
      await using p = both()
      const before = name.includes("rule") ? { needsApproval: () => false } : { needsApproval: false }
      const first = await p.open(ops(doing(p.ran, "deploy"), doing(p.ran, "wipe", before)))
      await first.runPrompt("ops", "go", { runId: "r" })
      const next = await p.open(ops(doing(p.ran, "deploy"), doing(p.ran, "wipe", options)))
      await next.decide((await next.pending())[0]!, approve())
      const result = await next.resume("r")
      if (result.status !== "interrupted") return assert.fail(result.status)
      assert.deepStrictEqual(p.ran, ["deploy"])
      await next.decide(result.interruptions[0]!, approve())
      assert.strictEqual((await next.resume("r")).status, "completed")
      assert.deepStrictEqual(p.ran, ["deploy", "wipe"])
    })
  }

  it("opens a request when its policy's time has passed meanwhile", async () => {
    await using p = both()
    vi.useFakeTimers({ toFake: ["Date"] })
    const until = Date.now() + 1000
    const policy = { mode: "until", until, rules: [{ tool: "deploy", action: "ask" }] } as const
    const agents = [agent("ops", { policy, tools: [doing(p.ran, "deploy"), doing(p.ran, "wipe")] })]
    const fermata = await p.open(agents)
    const result = await fermata.runPrompt("ops", "go", { runId: "r" })
    if (result.status !== "interrupted") return assert.fail(result.status)
    await fermata.decide(result.interruptions[0]!, approve())
    vi.setSystemTime(until)
    const later = await fermata.resume("r")
    assert.strictEqual(later.status, "interrupted")
    assert.deepStrictEqual(p.ran, ["deploy"])
  })
})

describe("an approved call", () => {
  it("does not run in another tool that takes its tool's name as an alias", async () => {
    await using p = paying({})
    const first = await p.open(ops(doing(p.ran, "pay"), doing(p.ran, "wipe")))
    await held(first)
    const next = await p.open(ops(doing(p.ran, "wipe", { aliases: ["pay"] })))
    await next.decide((await next.pending())[0]!, approve())
    assert.strictEqual((await next.resume("r")).status, "interrupted")
    assert.include(await reasonIn(next), "now names another tool")
    assert.deepStrictEqual(p.ran, [])
  })
})
