import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Stream from "effect/Stream"
import * as Agent from "../../src/agent/Agent.ts"
import * as ModelClient from "../../src/model/ModelClient.ts"
import * as Fermata from "../../src/promise/Fermata.ts"
import { layerMemory } from "../../src/store/RunStore.ts"
import * as ScriptedModel from "../../src/testing/ScriptedModel.ts"
import * as Tool from "../../src/tool/Tool.ts"

const open = (model: unknown = ScriptedModel.make(() => ({ calls: [{ tool: "deploy" }] })).client) =>
  Fermata.make({
    agents: [Agent.make("ops", { tools: [Tool.make("deploy", { handler: () => "deployed" })] })],
    model: model as ModelClient.ModelClient["Service"],
    store: layerMemory
  })

const refusal = (ask: () => unknown): Promise<any> =>
  Promise.resolve()
    .then(ask)
    .then(
      (taken) => assert.fail(`taken: ${JSON.stringify(taken)}`),
      (error: unknown) => error
    )

/** Lists inside lists, as many as `levels`. */
const nested = (levels: number): unknown => JSON.parse("[".repeat(levels) + "]".repeat(levels))

describe("a prompt that is none", () => {
  const message = [{ role: "user", content: "Deploy." }]
  const text = { _tag: "text", text: "Deploy." }
  const file = (source: unknown) => ({ _tag: "file", mediaType: "image/png", source })
  for (const [what, prompt, words] of [
    [
      "a list of messages",
      message,
      "its part 0 is a message with a role, but a session keeps its messages itself"
    ],
    ["a number", 5, "it is a number"],
    ["undefined", undefined, "it is undefined"],
    ["a part without a list", text, "it is an object"],
    [
      "a part of another SDK",
      [{ type: "text", text: "Deploy." }],
      '"_tag" of its part 0 takes "text" or "file"'
    ],
    [
      "a part without its text",
      [text, { _tag: "text" }],
      '"text" of its part 1 is missing: it takes a string'
    ],
    [
      "a part with an unknown key",
      [{ ...text, txt: "" }],
      'there is no "txt" in its part 0 (did you mean "text"?)'
    ],
    ...[201, 1000, 5000, 100_000].map(
      (levels) =>
        [
          `a part with data nested ${levels} levels deep`,
          [{ ...text, payload: nested(levels) }],
          "it is nested more than 200 levels deep"
        ] as const
    ),
    [
      "a part with data that is not JSON",
      [{ ...text, payload: { at: new Date(0) } }],
      '"payload" of its part 0 takes plain JSON data'
    ],
    ["a file without a source", [file(undefined)], '"source" of its part 0 is missing: it takes an object'],
    ["a file with a text as its source", [file("a.png")], "source"],
    [
      "a file of another SDK",
      [file({ _tag: "base64", data: "" })],
      '"source._tag" of its part 0 takes "bytes" or "url" or "reference" or "stored", and another text was given'
    ],
    [
      "a file whose URL is none",
      [file({ _tag: "url", url: "a.png" })],
      '"source.url" of its part 0 takes a URL, such as "https://example.com/a.png", and another text was given'
    ],
    ["blank", "  ", "The prompt is empty"],
    ["an empty list", [], "The prompt is empty"]
  ] as const) {
    it(`is refused with a sentence, and no run is stored: ${what}`, async () => {
      await using fermata = await open()
      const conductor = await fermata.conductor()
      const { runId } = await fermata.runPrompt("ops", "go")
      for (const ask of [
        () => fermata.runPrompt("ops", prompt as never),
        () => fermata.dispatch("ops", prompt as never),
        () => conductor.dispatch("ops", prompt as never).then((handle) => handle.done()),
        () => fermata.submit("ops", prompt as never),
        // A resume without a prompt is no error.
        ...(prompt === undefined ? [] : [() => fermata.resume(runId, { prompt: prompt as never })]),
        () => fermata.fork(runId, prompt as never),
        () => fermata.send(runId, prompt as never)
      ]) {
        const error = await refusal(ask)
        assert.strictEqual(error._tag, "EmptyPrompt", String(error))
        assert.include(error.message, words)
      }
      assert.lengthOf(await fermata.runs(), 1)
    })
  }
})

describe("an argument of the wrong type", () => {
  it("is refused with its name, and nothing is done", async () => {
    await using fermata = await open()
    const { runId } = await fermata.runPrompt("ops", "go")
    const handle = await fermata.attach(runId)
    const conductor = await fermata.conductor()
    for (const [ask, words] of [
      [
        () => fermata.cancel(runId, { reason: "late" } as never),
        '"reason" of the options of cancel takes a string'
      ],
      [() => handle.cancel(5 as never), '"reason" of the options of cancel takes a string'],
      [() => conductor.cancel({ name: "a" } as never), '"name" of the options of cancel takes a string'],
      [
        () => fermata.dispatch("ops", "go", { name: 5 as never }),
        '"name" of the options of dispatch takes a string'
      ],
      [() => conductor.dispatch("ops", "go", { name: 5 as never }), '"name" of the options of dispatch'],
      [
        () => fermata.conductor({ concurrency: 0 }),
        '"concurrency" of the options of conductor takes a number of 1'
      ],
      [
        () => fermata.conductor({ maxQueued: -1 }),
        '"maxQueued" of the options of conductor takes a number of 0'
      ],
      [() => fermata.conductor({ restart: 5 as never }), '"restart" of the options of conductor'],
      [
        () => fermata.conductor({ restart: { times: "2" as never } }),
        '"restart.times" of the options of conductor'
      ],
      [
        () => fermata.conductor({ restart: { times: 1, backoff: "3 secs" as never } }),
        '"restart.backoff" of the options of conductor takes a duration'
      ],
      [() => conductor.all(5 as never), '"handles" of the options of all takes a list'],
      [
        () => conductor.firstSuccess([5 as never]),
        '"handles.0" of the options of firstSuccess takes a handle'
      ],
      [() => conductor.quorum([handle], "2" as never), '"n" of the options of quorum takes a whole number'],
      [
        () => fermata.work({ concurrency: 0 }),
        '"concurrency" of the options of work takes a number of 1 or more'
      ],
      [
        () => fermata.recover({ concurrency: 0 }),
        '"concurrency" of the options of recover takes a number of 1'
      ],
      [() => fermata.fork(runId, "go", { revision: "1" as never }), '"revision" of the options of fork']
    ] as const) {
      const error = await refusal(ask)
      assert.strictEqual(error._tag, "OptionsInvalid", String(error))
      assert.include(error.message, words)
    }
    assert.deepStrictEqual(
      (await fermata.runs()).map(({ status }) => status),
      ["held"]
    )
  })

  it("is refused in a filter with the known words, and does not give an empty list", async () => {
    await using fermata = await open()
    const { runId } = await fermata.runPrompt("ops", "go")
    for (const [ask, words] of [
      [
        () => fermata.runs({ status: "interrupted" as never }),
        `"status" of the options of runs takes "running" or "held"`
      ],
      [
        () => fermata.pending({ kind: "aproval" as never }),
        `"kind" of the options of pending takes "approval"`
      ],
      [() => fermata.sessions({ agnt: "ops" } as never), 'did you mean "agent"'],
      [() => fermata.grants({ tool: 5 as never }), '"tool" of the options of grants takes a string']
    ] as const) {
      const error = await refusal(ask)
      // Not an error of the store, which a web service would report as its own failure.
      assert.strictEqual(error._tag, "OptionsInvalid", String(error))
      assert.include(error.message, words)
    }
    assert.lengthOf(await fermata.runs({ status: "held" }), 1)
    assert.strictEqual((await fermata.pending({ kind: "approval" }))[0]?.runId, runId)
  })

  it("is refused as an invalid option: the begin of events, the time of prune, and the size of a page", async () => {
    await using fermata = await open()
    const { runId, sessionId } = await fermata.runPrompt("ops", "go")
    const begins = [-1, 1.5, "1", NaN, Infinity]
    const times = [undefined, "1", NaN, Infinity, null]
    const sizes = [0, -1, 1.5, Infinity, "1"]
    for (const [ask, wrong, key] of [
      [(from) => fermata.events(runId, { from }), begins, "from"],
      [(from) => fermata.eventsResponse(runId, { from }), begins, "from"],
      [(endedBefore) => fermata.prune({ endedBefore }), times, "endedBefore"],
      [(limit) => fermata.pending({ limit }), sizes, "limit"],
      [(limit) => fermata.runs({ limit }), sizes, "limit"],
      [(limit) => fermata.sessions({ limit }), sizes, "limit"],
      [(limit) => fermata.grants({ limit }), sizes, "limit"],
      [(limit) => fermata.messages(sessionId, { limit }), sizes, "limit"]
    ] as ReadonlyArray<[(value: never) => unknown, ReadonlyArray<unknown>, string]>) {
      for (const value of wrong) {
        const error = await refusal(() => ask(value as never))
        assert.strictEqual(error._tag, "OptionsInvalid", `${key}: ${String(value)}: ${error}`)
        assert.include(error.message, `"${key}" of the options of`)
      }
    }
    assert.lengthOf(await fermata.runs({ limit: 1 }), 1)
  })

  it("is refused with the method's own name, and so is an empty idempotency key", async () => {
    await using fermata = await open()
    const { runId } = await fermata.runPrompt("ops", "go")
    const [pending] = await fermata.pending()
    const wrong = { messageID: "a" } as never
    assert.include((await refusal(() => fermata.send(runId, "x", wrong))).message, "The options of send are")
    const given = { _tag: "approve", idempotencyKey: "" } as const
    for (const ask of [
      () => fermata.decide(pending!, given),
      () => fermata.decide(pending!, { _tag: "approve" }, { idempotencyKey: "" }),
      () => fermata.decideAll([{ request: pending!, decision: given }]),
      () => fermata.resume(runId, { decisions: [{ ...given, requestId: `${runId}.r1`, by: "ann" }] as never })
    ]) {
      assert.include(
        (await refusal(ask)).message,
        "takes a string that is not empty, and another text was given"
      )
    }
    assert.lengthOf(await fermata.pending(), 1)
  })

  it("is not null where a default would take its place", async () => {
    await using fermata = await open()
    const { runId } = await fermata.runPrompt("ops", "go")
    const conductor = await fermata.conductor()
    const none = null as never
    for (const [ask, tag] of [
      [() => fermata.revokeGrant(runId, "g", { by: none }), "PrincipalInvalid"],
      [() => conductor.dispatch("ops", "go", { runId: none }), "IdInvalid"],
      [() => conductor.dispatch("ops", "go", { sessionId: none }), "IdInvalid"],
      [() => fermata.conductor({ limits: none }), "LimitsInvalid"],
      [() => Agent.make("a", { policy: none }), "AgentDefinitionError"]
    ] as const) {
      assert.strictEqual((await refusal(ask))._tag, tag)
    }
    assert.lengthOf(await fermata.runs(), 1)
  })

  it("is no agent, which every function that takes one refuses by its kind", async () => {
    await using fermata = await open()
    const { runId } = await fermata.runPrompt("ops", "go")
    const conductor = await fermata.conductor()
    for (const ask of [
      () => fermata.runPrompt(undefined as never, "go"),
      () => fermata.dispatch(5 as never, "go"),
      () => conductor.dispatch({} as never, "go"),
      () => fermata.fork(runId, "go", { agent: 5 as never }),
      () => fermata.attach(runId, { agent: {} as never }),
      () => fermata.result(runId, { agent: null as never }),
      () => fermata.reconfigure({ agent: {} as never, mode: "plan" })
    ]) {
      const error = await refusal(ask)
      assert.strictEqual(error._tag, "AgentNotFound")
      assert.match(
        error.message,
        /^An agent is given by its name or its definition, and this is (undefined|null|a number|an object): give one of ops\.$/
      )
    }
    const other = await refusal(() => fermata.attach(runId, { agent: { name: "opz" } as never }))
    assert.match(other.message, /^There is no agent "opz" here \(ops\)/)
  })
})

describe("answeredBy for a run that has not ended", () => {
  it("is refused unless it names the agent that has the conversation", async () => {
    await using fermata = await open()
    const { runId } = await fermata.runPrompt("ops", "go")
    for (const options of [{ answeredBy: "billing" }, { answeredBy: "billing", prompt: "And now?" }]) {
      const error = await refusal(() => fermata.resume(runId, options))
      assert.strictEqual(error._tag, "OptionsInvalid")
      assert.include(error.message, `after the run ${runId} has ended; in this run (held), ops answers`)
    }
    const { revision } = await fermata.state(runId)
    assert.strictEqual((await fermata.resume(runId, { answeredBy: "ops" })).status, "interrupted")
    assert.strictEqual((await fermata.state(runId)).revision, revision)
  })
})

describe("a model client's part", () => {
  const finish = { _tag: "finish", finishReason: "stop", usage: { inputTokens: 1, outputTokens: 1 } }
  for (const [what, part, words] of [
    ["an unknown tag", { _tag: "text", text: "Hi" }, 'it emitted the unknown part "text"'],
    ["no tag", { type: "text-delta", delta: "Hi" }, "it emitted a part without a _tag"],
    [
      "a delta of another type",
      { _tag: "text-delta", text: "Hi" },
      'it emitted a text-delta whose "delta" is undefined'
    ],
    ["a text instead of a part", "Hi", "it emitted a string as a part"]
  ] as const) {
    for (const [how, stream] of [
      ["a Stream", () => Stream.make(part, finish)],
      [
        "an async iterable",
        () =>
          ModelClient.fromAsyncIterable(async function* () {
            yield part as never
            yield finish as never
          }, String)
      ]
    ] as const) {
      it(`fails the run when it has ${what}, from ${how}`, async () => {
        await using fermata = await open({ stream, complete: () => Effect.die("not called") })
        const run = await fermata.runPrompt("ops", "go")
        if (run.status !== "error") return assert.fail(run.status)
        assert.include(run.error.message, `The model client failed: ${words}`)
      })
    }
  }
})
