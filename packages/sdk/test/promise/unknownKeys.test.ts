import { assert, describe, it } from "@effect/vitest"
import * as Agent from "../../src/agent/Agent.ts"
import type { DecisionMalformed } from "../../src/domain/Rejection.ts"
import { answer, approve, type DecisionBody, deny } from "../../src/promise/decisions.ts"
import * as Fermata from "../../src/promise/Fermata.ts"
import {
  isDecisionMalformed,
  isOptionsInvalid,
  isPolicyInvalid,
  isPrincipalInvalid
} from "../../src/promise/guards.ts"
import * as Storeless from "../../src/promise/Storeless.ts"
import * as RunStore from "../../src/store/RunStore.ts"
import * as ScriptedModel from "../../src/testing/ScriptedModel.ts"
import * as Tool from "../../src/tool/Tool.ts"

/** A Fermata whose model calls `deploy` once in each run, and the calls that ran. */
const open = async (options: object = {}) => {
  const ran: Array<unknown> = []
  const deploy = Tool.make("deploy", { handler: () => void ran.push(1) })
  const model = ScriptedModel.make(({ turn }) => (turn === 1 ? { calls: [{ tool: "deploy" }] } : "done"))
  const fermata = await Fermata.make({
    agents: [Agent.make("ops", { tools: [deploy] })],
    model: model.client,
    store: RunStore.layerMemory,
    ...options
  })
  return { fermata, ran, requests: model.requests }
}

const held = async (fermata: Fermata.Fermata) => {
  const run = await fermata.runPrompt("ops", "go")
  if (run.status !== "interrupted") return assert.fail(run.status)
  return { run, request: run.interruptions[0]! }
}

const rejected = (ask: () => unknown): Promise<any> =>
  Promise.resolve()
    .then(ask)
    .then(
      () => assert.fail("It was not refused."),
      (error: unknown) => error
    )

describe("a decision with an unknown key", () => {
  const cases: ReadonlyArray<readonly [string, () => DecisionBody, string]> = [
    [
      "an unknown expiry of the grant",
      () => approve({ grant: { scope: "run", expiresIn: "1 hour" } as never }),
      "expiresAt"
    ],
    ["edited arguments", () => ({ _tag: "approve", args: { id: "2" } }) as never, "arguments"],
    ["a misspelt grant", () => approve({ grnat: { scope: "run" } } as never), "grant"],
    ["a stop", () => ({ _tag: "deny", Then: "stop" }) as never, "then"],
    ["a stop, of deny", () => deny("no", { Then: "stop" } as never), "then"]
  ]
  for (const [what, body, nearest] of cases) {
    it(`is rejected (${what}), and its request stays open`, async () => {
      const { fermata, ran } = await open()
      await using _ = fermata
      const { request } = await held(fermata)
      const error: DecisionMalformed = await rejected(() => fermata.decide(request, body()))
      assert.isTrue(isDecisionMalformed(error), String(error))
      assert.strictEqual(error.misfits?.[0]?.nearest, nearest)
      assert.include(error.message, `did you mean "${nearest}"?`)
      assert.strictEqual((await fermata.pending()).length, 1)
      assert.deepStrictEqual(ran, [])
    })
  }

  it("is rejected when a map, a class or a hidden field holds the arguments of its grant", async () => {
    const { fermata } = await open()
    await using _ = fermata
    const { request } = await held(fermata)
    const to = { _tag: "equals", value: "bob" }
    for (const patterns of [
      new Map([["to", 1]]),
      { [Symbol("to")]: 1 },
      Object.create({ to }) as object,
      Object.defineProperty({}, "to", { value: to }),
      Object.defineProperty({}, Symbol("to"), { value: to })
    ]) {
      const body = { _tag: "approve", grant: { scope: "session", arguments: patterns } }
      assert.isTrue(isDecisionMalformed(await rejected(() => fermata.decide(request, body as never))))
    }
    const unseen = Object.defineProperty({ scope: "session" }, "expiresAt", { value: 1 })
    const error = await rejected(() => fermata.decide(request, { _tag: "approve", grant: unseen } as never))
    assert.include(error.message, '"expiresAt" in "grant" of the decision is not enumerable')
    assert.deepStrictEqual(await fermata.grants(), [])
  })

  for (const [what, patterns, place, key] of [
    ["an argument", { to: undefined }, '"grant.arguments"', "to"],
    [
      "a part of a value that an argument equals",
      { to: { _tag: "equals", value: { ids: [{ id: undefined }] } } },
      '"grant.arguments.to.value.ids.0"',
      "id"
    ]
  ] as const) {
    it(`is rejected when the pattern of its grant is undefined for ${what}`, async () => {
      const grant = { scope: "run", arguments: patterns } as never
      const { fermata, ran } = await open()
      await using _ = fermata
      const { request, run } = await held(fermata)
      const { requestId } = request
      const decision = { _tag: "approve", grant } as never
      for (const [ask, whole] of [
        [() => approve({ grant }), "the options of approve"],
        [() => fermata.decide(request, decision), "the decision"],
        [() => fermata.decideAll([{ request, decision }]), "the decision"],
        [
          () => fermata.resume(run.runId, { decisions: [{ _tag: "approve", requestId, by: "ana", grant }] }),
          "the decision"
        ]
      ] as const) {
        const error: DecisionMalformed = await rejected(ask)
        assert.isTrue(isDecisionMalformed(error), String(error))
        assert.include(
          error.message,
          `${place} of ${whole} has no value for "${key}": leave the key out, or name a value`
        )
      }
      const approvalCallback = () => ({ _tag: "approve", by: "bot", grant })
      const { fermata: other, ran: others } = await open({ approvalCallback })
      await using __ = other
      assert.strictEqual((await other.runPrompt("ops", "go")).status, "interrupted")
      assert.deepStrictEqual([await fermata.grants(), ran, others], [[], [], []])
    })
  }

  for (const key of ["at", "schema"]) {
    it(`is rejected when it states its ${key}, which the runtime adds`, async () => {
      const { fermata, ran } = await open()
      await using _ = fermata
      const { request, run } = await held(fermata)
      const { requestId } = request
      const decision = { _tag: "approve", [key]: key === "at" ? 5 : "s" } as never
      const decisions = [{ ...(decision as object), requestId, by: "ana" } as never]
      const handle = await fermata.attach(run.runId)
      const storeless = await Storeless.make({
        agents: [Agent.make("ops", { tools: [Tool.make("deploy", { handler: () => "deployed" })] })],
        model: ScriptedModel.make([{ calls: [{ tool: "deploy" }] }]).client
      })
      await using __ = storeless
      const unstored = await storeless.runPrompt("ops", "go")
      for (const ask of [
        () => fermata.decide(request, decision),
        () => fermata.decideAll([{ request, decision }]),
        () => fermata.resume(run.runId, { decisions }),
        () => handle.decide(request, decision),
        () => storeless.resume(unstored.state, { decisions })
      ]) {
        const error: DecisionMalformed = await rejected(ask)
        assert.isTrue(isDecisionMalformed(error), String(error))
        assert.strictEqual(error.misfits?.[0]?.key, key)
      }
      const approvalCallback = () => ({ ...(decision as object), by: "bot" })
      const { fermata: other, ran: others } = await open({ approvalCallback })
      await using ___ = other
      assert.strictEqual((await other.runPrompt("ops", "go")).status, "interrupted")
      assert.deepStrictEqual([ran, others], [[], []])
    })
  }

  it("differs from one with undefined optional keys, which is accepted", async () => {
    const { fermata } = await open()
    await using _ = fermata
    const { request } = await held(fermata)
    const grant = {
      scope: "session",
      arguments: undefined,
      expiresAt: undefined,
      inherit: undefined
    } as const
    await fermata.decide(request, approve({ grant: grant as never }))
    assert.lengthOf(await fermata.pending(), 0)
  })

  it("is ignored when a callback returns it in a hidden field, and the request stays open", async () => {
    const edit = Object.defineProperty({ ...approve() }, "arguments", { value: {} })
    const { fermata, ran } = await open({ approvalCallback: () => ({ ...edit, by: "bot" }) })
    await using _ = fermata
    const unseen = { approvalCallback: () => Object.assign(edit, { by: "bot" }) }
    assert.strictEqual((await fermata.runPrompt("ops", "go")).status, "completed")
    const { fermata: other } = await open(unseen)
    await using __ = other
    assert.strictEqual((await other.runPrompt("ops", "go")).status, "interrupted")
    assert.lengthOf(ran, 1)
  })

  it("rejects the whole batch of decideAll", async () => {
    const { fermata } = await open()
    await using _ = fermata
    const one = await held(fermata)
    const two = await held(fermata)
    const good = { request: one.request, decision: approve() }
    for (const bad of [
      { request: two.request, decision: { _tag: "approve", args: {} } },
      { request: two.request, decision: approve(), noet: "late" },
      { request: two.request, decision: approve(), by: " " },
      { request: "none.r1", decision: approve() },
      null
    ]) {
      const error = await rejected(() => fermata.decideAll([good, bad as never]))
      assert.match(error._tag, /^(DecisionMalformed|OptionsInvalid|RequestNotFound)$/)
      assert.strictEqual((await fermata.pending()).length, 2)
    }
    for (const none of [undefined, null, {}]) {
      assert.isTrue(isDecisionMalformed(await rejected(() => fermata.decideAll(none as never))))
    }
    const taken = await fermata.decideAll([good, { request: two.request, decision: deny("no"), by: "ana" }])
    assert.deepStrictEqual(
      taken.map(({ _tag, by, requestId }) => [_tag, by, requestId]),
      [
        ["approve", "unnamed", one.request.requestId],
        ["deny", "ana", two.request.requestId]
      ]
    )
    assert.deepStrictEqual(await fermata.pending(), [])
  })

  it("is rejected by `resume`, a handle and a conductor", async () => {
    const { fermata, ran } = await open()
    await using _ = fermata
    const { request, run } = await held(fermata)
    const { requestId } = request
    const bad = { _tag: "approve", args: {} } as never
    const decisions = [{ _tag: "approve", requestId, by: "ana", args: {} } as never]
    assert.isTrue(isDecisionMalformed(await rejected(() => fermata.resume(run.runId, { decisions }))))
    const handle = await fermata.attach(run.runId)
    assert.isTrue(isDecisionMalformed(await rejected(() => handle.decide(request, bad))))
    const conductor = await fermata.conductor()
    assert.isTrue(isDecisionMalformed(await rejected(() => conductor.decide(request, bad))))
    assert.deepStrictEqual(ran, [])
  })

  it("differs from the option `by`, and the error says where that belongs", async () => {
    const { fermata } = await open()
    await using _ = fermata
    const { request } = await held(fermata)
    const error = await rejected(() => fermata.decide(request, { ...approve(), by: "ana" } as never))
    assert.isTrue(isDecisionMalformed(error))
    assert.include(error.message, "it belongs in the options after the decision")
  })
})

describe("options with an unknown key", () => {
  it("are refused by each function, which the error names, before anything is done", async () => {
    const { fermata, requests } = await open()
    await using _ = fermata
    const { request, run } = await held(fermata)
    const asked = requests.length
    const handle = await fermata.attach(run.runId)
    const conductor = await fermata.conductor()
    const bad = { polcy: { mode: "ask" } } as never
    const functions: ReadonlyArray<readonly [string, () => unknown]> = [
      ["runPrompt", () => fermata.runPrompt("ops", "go", bad)],
      ["dispatch", () => fermata.dispatch("ops", "go", bad)],
      ["submit", () => fermata.submit("ops", "go", bad)],
      ["resume", () => fermata.resume(run.runId, bad)],
      ["fork", () => fermata.fork(run.runId, "go", bad)],
      ["send", () => fermata.send(run.runId, "hello", bad)],
      ["decide", () => fermata.decide(request, approve(), bad)],
      ["events", () => fermata.events(run.runId, bad)],
      ["recover", () => fermata.recover(bad)],
      ["work", () => fermata.work(bad)],
      ["damagedRuns", () => fermata.damagedRuns(bad)],
      ["conductor", () => fermata.conductor(bad)],
      ["revokeGrant", () => fermata.revokeGrant(run.runId, "g", bad)],
      ["prune", () => fermata.prune({ endedBefore: 0, ...(bad as object) })],
      ["send", () => handle.send("hello", bad)],
      ["decide", () => handle.decide(request, approve(), bad)],
      ["dispatch", () => conductor.dispatch("ops", "go", bad)]
    ]
    for (const [of, ask] of functions) {
      const error = await rejected(ask)
      assert.isTrue(isOptionsInvalid(error), `${of}: ${error}`)
      assert.strictEqual(error.of, of)
      assert.strictEqual(error.misfits[0]?.key, "polcy")
      assert.include(error.message, "nothing was done")
    }
    assert.strictEqual(requests.length, asked)
    assert.strictEqual((await fermata.runs()).length, 1)
    assert.strictEqual((await fermata.pending()).length, 1)
  })

  it("does not replace the author of a Fermata's denials when it is undefined", async () => {
    const { fermata } = await open({ by: "ana" })
    await using _ = fermata
    const { run } = await held(fermata)
    const handle = await fermata.attach(run.runId)
    await handle.send("stop", { whenHeld: "supersede", by: undefined as never })
    await handle.done()
    const { requests } = await fermata.state(run.runId)
    assert.deepStrictEqual(
      requests.map(({ decision }) => decision?.by),
      ["ana"]
    )
  })

  it("is refused by revokeGrant also if decisions take it", async () => {
    const { fermata } = await open()
    await using _ = fermata
    for (const unused of [{ note: "no more" }, { idempotencyKey: "once" }]) {
      const error = await rejected(() => fermata.revokeGrant("run", "g", unused as never))
      assert.isTrue(isOptionsInvalid(error), String(error))
    }
  })

  it("are refused by functions that list", async () => {
    const { fermata } = await open()
    await using _ = fermata
    for (const list of [fermata.pending, fermata.runs, fermata.grants]) {
      const error = await rejected(() => list({ sessionID: "s" } as never))
      assert.include(error.message, 'did you mean "sessionId"?')
    }
  })

  it("prevent a Fermata from being made", async () => {
    const error = await rejected(() => open({ aprovalCallback: () => undefined }))
    assert.isTrue(isOptionsInvalid(error))
    assert.include(error.message, 'did you mean "approvalCallback"?')
    for (const none of [undefined, null, "x"]) {
      assert.isTrue(isOptionsInvalid(await rejected(() => Fermata.make(none as never))))
    }
    const ops = Agent.make("ops")
    for (const [options, words] of [
      [{ agents: undefined }, '"agents" of the options of createFermata is missing: it takes a list'],
      [{ agents: ops }, '"agents" of the options of createFermata takes a list'],
      [{ agents: [undefined] }, '"agents.0" of the options of createFermata takes an agent'],
      [{ agents: [{ name: "ops" }] }, '"agents.0" of the options of createFermata takes an agent'],
      [{ model: undefined }, '"model" of the options of createFermata is missing: it takes a model client'],
      [{ model: "gpt-5.5" }, '"model" of the options of createFermata takes a model client'],
      [{ model: { stream: () => [] } }, "an object with the functions stream and complete"],
      [{ store: 5 }, '"store" of the options of createFermata takes a layer with a RunStore'],
      [{ store: {} }, '"store" of the options of createFermata takes a layer with a RunStore'],
      [{ scrubber: 5 }, '"scrubber" of the options of createFermata takes a scrubber'],
      [{ scrubber: {} }, '"scrubber" of the options of createFermata takes a scrubber']
    ] as const) {
      const error = await rejected(() => open(options))
      assert.isTrue(isOptionsInvalid(error), String(error))
      assert.include(error.message, words)
    }
    assert.isTrue(isPrincipalInvalid(await rejected(() => open({ by: "роlісу" }))))
    assert.isTrue(isPrincipalInvalid(await rejected(() => open({ by: " " }))))
  })

  it("or a value of the wrong type are refused", async () => {
    const { fermata, requests } = await open()
    await using _ = fermata
    const { run } = await held(fermata)
    const asked = requests.length
    for (const [given, words] of [
      [{ onUpdate: 5 }, '"onUpdate" of the options of runPrompt takes a function'],
      [{ answeredBy: null }, '"answeredBy" of the options of runPrompt takes a string'],
      [{ signal: "stop" }, '"signal" of the options of runPrompt takes an AbortSignal']
    ] as const) {
      const error = await rejected(() => fermata.runPrompt("ops", "go", given as never))
      assert.isTrue(isOptionsInvalid(error), String(error))
      assert.include(error.message, words)
      assert.isTrue(isOptionsInvalid(await rejected(() => fermata.resume(run.runId, given as never))))
    }
    assert.strictEqual(requests.length, asked)
    for (const knob of ["cancelGrace", "drainTimeout"]) {
      for (const none of [{}, { second: 1 }, { seconds: Number.NaN }, Number.NaN, "soon", null, -1]) {
        const error = await rejected(() => open({ [knob]: none }))
        assert.strictEqual(error._tag, "RuntimeOptionsInvalid", `${knob}: ${JSON.stringify(none)}`)
        assert.include(error.message, knob)
      }
    }
  })

  it("or an unknown word are refused with the known ones", async () => {
    const { fermata } = await open()
    await using _ = fermata
    const { run } = await held(fermata)
    const handle = await fermata.attach(run.runId)
    for (const [ask, word] of [
      [() => handle.send("stop", { whenHeld: "superseed" } as never), "supersede"],
      [() => fermata.conductor({ overflow: "rejct" } as never), "reject"],
      [() => fermata.runPrompt("ops", "go", { mayRepeat: "yes" } as never), "true or false"]
    ] as const) {
      const error = await rejected(ask)
      assert.isTrue(isOptionsInvalid(error), String(error))
      assert.include(error.message, word)
    }
  })
})

describe("an invalid policy", () => {
  it("is refused by each function that takes one, with its field, before anything is stored", async () => {
    const { fermata, requests } = await open()
    await using _ = fermata
    const done = await fermata.runPrompt("ops", "go", { policy: { mode: "all" } })
    const asked = requests.length
    const conductor = await fermata.conductor()
    for (const policy of [
      { mode: "al" },
      { mode: "all", rule: [] },
      { mode: "ask", rules: [{ tool: 1 }] }
    ] as const) {
      const bad = { policy } as never
      for (const ask of [
        () => fermata.runPrompt("ops", "go", bad),
        () => fermata.dispatch("ops", "go", bad),
        () => fermata.submit("ops", "go", bad),
        () => fermata.fork(done.runId, "go", bad),
        () => fermata.resume(done.runId, { prompt: "go", ...(bad as object) }),
        () => conductor.dispatch("ops", "go", bad)
      ]) {
        const error = await rejected(ask)
        assert.isTrue(isPolicyInvalid(error), String(error))
        assert.match(error.message, /mode|rule/)
      }
    }
    assert.strictEqual(requests.length, asked)
    assert.strictEqual((await fermata.runs()).length, 1)
  })
})

describe("the principal of a decision", () => {
  it("is neither blank nor similar to a reserved name", async () => {
    const { fermata, ran } = await open()
    await using _ = fermata
    const { request, run } = await held(fermata)
    for (const by of [
      "",
      " ",
      "\u200b",
      "Expiry",
      "ехрігу",
      "p\u200bolicy",
      "PoIicy",
      { id: "роlісу", kind: "person" }
    ]) {
      const error = await rejected(() => fermata.decide(request, approve(), { by } as never))
      assert.isTrue(isDecisionMalformed(error), JSON.stringify(by))
      assert.isTrue(
        isPrincipalInvalid(await rejected(() => fermata.revokeGrant(run.runId, "g", { by } as never)))
      )
      const handle = await fermata.attach(run.runId)
      assert.isTrue(
        isPrincipalInvalid(await rejected(() => handle.send("no", { by, whenHeld: "supersede" } as never)))
      )
    }
    const extra = { id: "ana", kind: "person", authn: "oidc" } as never
    const revoking = await rejected(() => fermata.revokeGrant(run.runId, "g", { by: extra }))
    assert.isTrue(isPrincipalInvalid(revoking), String(revoking))
    assert.include(
      (await rejected(() => fermata.decide(request, answer("x"), { by: extra }))).message,
      "authn"
    )
    assert.deepStrictEqual(ran, [])
    assert.strictEqual((await fermata.pending()).length, 1)
  })
})
