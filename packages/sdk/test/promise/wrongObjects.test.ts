/**
 * Random objects with one misspelt key or one value of a wrong type, at every function that takes an object. `FERMATA_OBJECTS` sets their
 * number: 10,000 by default.
 */
import { assert, describe, it } from "@effect/vitest"
import * as DateTime from "effect/DateTime"
import * as Duration from "effect/Duration"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Schedule from "effect/Schedule"
import * as Schema from "effect/Schema"
import * as fc from "fast-check"
import * as Agent from "../../src/agent/Agent.ts"
import { ApprovalPolicy, Rule } from "../../src/domain/ApprovalPolicy.ts"
import { ArgumentPattern, GrantRequest } from "../../src/domain/Grant.ts"
import { Kind } from "../../src/domain/Interruption.ts"
import { LimitChanges } from "../../src/domain/Limits.ts"
import { Principal } from "../../src/domain/Principal.ts"
import { Status } from "../../src/domain/RunState.ts"
import { approve, deny } from "../../src/promise/decisions.ts"
import * as Fermata from "../../src/promise/Fermata.ts"
import { layerMemory } from "../../src/store/RunStore.ts"
import * as ScriptedModel from "../../src/testing/ScriptedModel.ts"
import * as Hold from "../../src/tool/Hold.ts"
import * as Scrubber from "../../src/tool/Scrubber.ts"
import * as Tool from "../../src/tool/Tool.ts"
import * as WaitTool from "../../src/tool/WaitTool.ts"

/** A field of an object: examples of its values, and which values are of its type. */
interface Field {
  readonly examples: ReadonlyArray<unknown>
  readonly is: (value: unknown) => boolean
  readonly isRequired?: true
}

type Fields = Readonly<Record<string, Field>>

const field = (is: Field["is"], ...examples: ReadonlyArray<unknown>): Field => ({ is, examples })
const required = (given: Field): Field => ({ ...given, isRequired: true })
const ofSchema = (schema: Schema.Codec<unknown, unknown>, ...examples: ReadonlyArray<unknown>): Field =>
  field(Schema.is(schema), ...examples)
const isObject = (value: unknown): value is object => typeof value === "object" && value !== null

const text = field((value) => typeof value === "string", "a", "run_1")
const flag = field((value) => typeof value === "boolean", true, false)
const amount = field((value) => typeof value === "number" && value >= 1, 1, 7)
const callable = field(
  (value) => typeof value === "function",
  () => undefined
)
const duration = field(
  (value) =>
    (typeof value === "number" && value >= 0) ||
    typeof value === "bigint" ||
    (typeof value === "string" && Option.isSome(Duration.fromInput(value as "1 second"))),
  "1 second",
  5
)
const words = (...known: ReadonlyArray<string>): Field =>
  field((value) => known.includes(value as string), ...known)
const texts = field(
  (value) => Array.isArray(value) && value.every((item) => typeof item === "string"),
  ["a"],
  []
)
const signal = field((value) => value instanceof AbortSignal, new AbortController().signal)
const time = field(Number.isFinite, 1, Date.now())
const moment = field((value) => DateTime.make(value as never)._tag === "Some", "2026-03-01T09:00:00Z", 5)
const wait = field((value) => duration.is(value) && value !== "Infinity", "1 second", 5)
const token = field((value) => typeof value === "string" && value !== "", "job-1")
const limits = field((value) => isObject(value) && !Array.isArray(value), { maxTurns: 3 }, {})
const policy = field((value) => isObject(value) && "mode" in value, { mode: "ask" })
const principal = field((value) => typeof value === "string" || Schema.is(Principal)(value), "ana", {
  id: "ana",
  kind: "person"
})
const json = ofSchema(Schema.Json, 1, { to: "ana" }, "x", null, [])
const schema = field(
  (value) => Schema.isSchema(value) || (isObject(value) && "type" in value),
  Schema.Struct({}),
  { type: "object" }
)

const ops = Agent.make("ops", { tools: [Tool.make("deploy", { handler: () => "deployed" })] })
const model = ScriptedModel.make(() => ({ calls: [{ tool: "deploy" }] })).client

const grant: Fields = {
  scope: required(ofSchema(GrantRequest.fields.scope, "run", "session")),
  arguments: ofSchema(
    Schema.Record(Schema.String, ArgumentPattern),
    {},
    { to: { _tag: "glob", pattern: "*" } }
  ),
  expiresAt: time,
  inherit: flag
}

const limitFields: Fields = Object.fromEntries(
  Object.keys(LimitChanges.fields).map((name) => [
    name,
    name === "wrapUp"
      ? flag
      : name === "warnAt"
        ? field((value) => typeof value === "number" && value >= 0 && value <= 1, 0.5)
        : field(
            (value) =>
              typeof value === "number" && value >= 0 && (name === "maxCostUsd" || Number.isInteger(value)),
            3
          )
  ])
)

const rule: Fields = {
  tool: required(text),
  action: required(ofSchema(Rule.fields.action, "ask", "deny")),
  message: text
}

const settings: Fields = {
  temperature: field(Number.isFinite, 0.5),
  topP: field((value) => typeof value === "number" && value >= 0 && value <= 1, 0.5),
  maxOutputTokens: field((value) => Number.isInteger(value) && (value as number) >= 1, 9),
  stop: texts,
  seed: field(Number.isFinite, 4),
  reasoningEffort: words("low", "high"),
  toolChoice: field((value) => value === "auto" || (isObject(value) && "tool" in value), "auto", {
    tool: "deploy"
  }),
  parallelToolCalls: flag,
  extra: field((value) => isObject(value) && !Array.isArray(value), { top_k: 1 })
}

const context = field((value) => isObject(value) && Object.getPrototypeOf(value) === Object.prototype, {
  tenant: "acme"
})

const start: Fields = {
  answeredBy: text,
  context,
  limits,
  policy,
  signal,
  onUpdate: callable
}

const size = field((value) => typeof value === "number" && !Number.isNaN(value), 5)
const page: Fields = {
  limit: size,
  after: text
}
const decideOptions: Fields = { by: principal, note: text, idempotencyKey: text }
const bodies: Readonly<Record<string, Fields>> = {
  approve: {
    arguments: json,
    grant: field((value) => isObject(value) && "scope" in value, { scope: "run" })
  },
  deny: { message: text, then: words("continue", "stop") },
  answer: { answer: required(text) },
  supply: { result: required(json) },
  fail: { message: text },
  topUp: { limit: required(field(Number.isFinite, 3)) }
}

/** What a misspelt or mistyped object is handed to. */
interface Door {
  readonly fields: Fields
  readonly open: (given: never, held: Held) => unknown
}

interface Held {
  readonly fermata: Fermata.Fermata
  readonly runId: string
  readonly conductor: Awaited<ReturnType<Fermata.Fermata["conductor"]>>
  readonly handle: Awaited<ReturnType<Fermata.Fermata["attach"]>>
}

const requestOf = ({ runId }: Held) => `${runId}.r1`

const doors: Readonly<Record<string, Door>> = {
  approve: { fields: bodies["approve"]!, open: (given) => approve(given) },
  deny: { fields: { then: words("continue", "stop") }, open: (given) => deny("no", given) },
  "a grant": { fields: grant, open: (given) => approve({ grant: given }) },
  ...Object.fromEntries(
    Object.entries(bodies).map(([_tag, fields]) => [
      `a decision ${_tag}`,
      {
        fields,
        open: (given: object, held: Held) => held.fermata.decide(requestOf(held), { _tag, ...given } as never)
      }
    ])
  ),
  "the options of decide": {
    fields: decideOptions,
    open: (given, held) => held.fermata.decide(requestOf(held), { _tag: "retry" }, given)
  },
  decideAll: {
    fields: {
      ...decideOptions,
      request: required(text),
      decision: required(field((value) => isObject(value) && "_tag" in value, { _tag: "retry" }))
    },
    open: (given, held) => held.fermata.decideAll([given])
  },
  "the options of revokeGrant": {
    fields: decideOptions,
    open: (given, held) => held.fermata.revokeGrant(held.runId, "none", given)
  },
  "a principal": {
    fields: {
      id: required(text),
      kind: required(words("person", "agent", "service")),
      authenticated: text
    },
    open: (given, held) => held.fermata.decide(requestOf(held), { _tag: "retry" }, { by: given })
  },
  limits: {
    fields: limitFields,
    open: (given, { fermata }) => fermata.runPrompt("ops", "go", { limits: given })
  },
  "limits of an agent": { fields: limitFields, open: (given) => Agent.make("a", { limits: given }) },
  "limits of a conductor": {
    fields: {
      maxRuns: limitFields["maxTurns"]!,
      maxTokens: limitFields["maxTokens"]!,
      maxCostUsd: limitFields["maxCostUsd"]!
    },
    open: (given, { fermata }) => fermata.conductor({ limits: given })
  },
  "a policy": {
    fields: {
      mode: required(ofSchema(ApprovalPolicy.fields.mode, "ask", "all", "none")),
      rules: field(
        (value) => Array.isArray(value) && value.every(Schema.is(Rule)),
        [],
        [{ tool: "*", action: "ask" }]
      )
    },
    open: (given, { fermata }) => fermata.runPrompt("ops", "go", { policy: given })
  },
  "a rule": {
    fields: rule,
    open: (given, { fermata }) => fermata.dispatch("ops", "go", { policy: { mode: "ask", rules: [given] } })
  },
  "the policy of an agent": {
    fields: { mode: required(ofSchema(ApprovalPolicy.fields.mode, "ask", "all")) },
    open: (given) => Agent.make("a", { policy: given })
  },
  "an agent": {
    fields: {
      instructions: field((value) => typeof value === "string" || typeof value === "function", "Be brief."),
      tools: field((value) => Array.isArray(value) && value.length === 0, []),
      subAgents: field((value) => Array.isArray(value) && value.length === 0, []),
      delegation: words("tools", "delegate"),
      handoffs: field(
        (value) => typeof value === "function" || (Array.isArray(value) && value.length === 0),
        []
      ),
      output: schema,
      limits,
      policy,
      description: text,
      profile: text,
      settings: field((value) => isObject(value) && !Array.isArray(value), {}),
      context: schema,
      aliases: texts
    },
    open: (given) => Agent.make("a", given)
  },
  "settings of an agent": { fields: settings, open: (given) => Agent.make("a", { settings: given }) },
  "a tool": {
    fields: {
      description: text,
      parameters: schema,
      handler: required(callable),
      success: field(Schema.isSchema, Schema.String),
      failure: field(Schema.isSchema, Schema.String),
      context: schema,
      facts: callable,
      maxResultLength: field((value) => Number.isInteger(value) && (value as number) >= 1, 500),
      safety: words("readOnly", "sideEffecting", "privileged"),
      needsApproval: field((value) => typeof value === "boolean" || typeof value === "function", true),
      idempotent: flag,
      reconcile: callable,
      timeout: duration,
      retry: field(Schedule.isSchedule, Schedule.recurs(1)),
      approval: field((value) => isObject(value) && !Array.isArray(value), {}),
      risk: field((value) => typeof value === "string" || typeof value === "function", "It deploys."),
      preview: callable,
      aliases: texts,
      identity: text,
      otherNames: texts
    },
    open: (given) => Tool.make("a", given)
  },
  "the approval of a tool": {
    fields: { expiresIn: required(duration), onExpiry: words("deny", "stay"), warnBefore: duration },
    open: (given) => Tool.make("a", { handler: () => "", approval: given })
  },
  createFermata: {
    fields: {
      agents: required(field((value) => Array.isArray(value) && value.length === 0, [ops])),
      model: required(field((value) => value === model, model)),
      store: required(field(Layer.isLayer, layerMemory)),
      scrubber: field((value) => isObject(value) && "scrub" in value, Scrubber.none),
      by: principal,
      drainTimeout: duration,
      approvalCallback: callable,
      interactive: flag,
      owner: text,
      leaseTtl: field((value) => duration.is(value) && value !== 0, "1 second", 500),
      cancelGrace: duration
    },
    open: (given) => Fermata.make(given)
  },
  runPrompt: {
    fields: { ...start, runId: text, sessionId: text, mayRepeat: flag },
    open: (given, { fermata }) => fermata.runPrompt("ops", "go", given)
  },
  dispatch: {
    fields: { ...start, runId: text, sessionId: text, mayRepeat: flag, name: text },
    open: (given, { fermata }) => fermata.dispatch("ops", "go", given)
  },
  submit: {
    fields: { answeredBy: text, limits, policy, runId: text, sessionId: text, mayRepeat: flag },
    open: (given, { fermata }) => fermata.submit("ops", "go", given)
  },
  "dispatch of a conductor": {
    fields: { answeredBy: text, limits, policy, runId: text, sessionId: text, name: text },
    open: (given, { conductor }) => conductor.dispatch("ops", "go", given)
  },
  conductor: {
    fields: {
      concurrency: amount,
      overflow: words("queue", "block", "reject"),
      maxQueued: field((value) => typeof value === "number" && value >= 0, 5),
      limits,
      restart: field((value) => isObject(value) && !Array.isArray(value), { times: 1 }),
      drainTimeout: duration
    },
    open: (given, { fermata }) => fermata.conductor(given)
  },
  "restart of a conductor": {
    fields: {
      times: required(field((value) => typeof value === "number" && value >= 0, 1)),
      backoff: duration
    },
    open: (given, { fermata }) => fermata.conductor({ restart: given })
  },
  resume: {
    fields: { ...start, decisions: field(Array.isArray, []), agent: text },
    open: (given, { fermata, runId }) => fermata.resume(runId, given)
  },
  fork: {
    fields: {
      ...start,
      sessionId: text,
      newRunId: text,
      agent: field((value) => typeof value === "string", "ops")
    },
    open: (given, { fermata, runId }) => fermata.fork(runId, "go", given)
  },
  attach: {
    fields: { agent: text, onClose: words("suspend", "cancel") },
    open: (given, { fermata, runId }) => fermata.attach(runId, given)
  },
  reconfigure: {
    fields: { profile: text, mode: text, modelProfile: text, agent: text },
    open: (given, { fermata }) => fermata.reconfigure(given)
  },
  complete: {
    fields: { by: principal, waitFor: duration },
    open: (given, { fermata }) => fermata.complete("none", { result: 1 }, given)
  },
  "a result from outside": {
    fields: { result: required(json) },
    open: (given, { fermata }) => fermata.complete("none", given as never)
  },
  "a failure from outside": {
    fields: { failure: required(text) },
    open: (given, { fermata }) => fermata.complete("none", given as never)
  },
  reopen: {
    fields: { by: principal, note: text },
    open: (given, held) => held.fermata.reopen(requestOf(held), given)
  },
  checkAll: {
    fields: { otherAgents: texts },
    open: async (given, { fermata }) => {
      for await (const blocked of fermata.checkAll(given)) assert.fail(blocked.text)
    }
  },
  "wait until": {
    fields: { until: required(moment), reason: text },
    open: (given) => Hold.wait(given as never)
  },
  "wait for": { fields: { for: required(wait), reason: text }, open: (given) => Hold.wait(given as never) },
  "pending until": {
    fields: { token, reason: text, expiresAt: moment },
    open: (given) => Hold.pending(given)
  },
  "pending for": { fields: { token, reason: text, expiresIn: wait }, open: (given) => Hold.pending(given) },
  waitTool: { fields: { max: wait }, open: (given) => WaitTool.make(given) },
  messages: {
    fields: { before: size, after: size, limit: size },
    open: (given, { fermata }) => fermata.messages("none", given)
  },
  damagedRuns: {
    fields: { journals: flag },
    open: (given, { fermata }) => fermata.damagedRuns(given)
  },
  eventsResponse: {
    fields: { from: size, until: words("hold", "end"), heartbeat: duration, signal },
    open: (given, { fermata, runId }) => fermata.eventsResponse(runId, given)
  },
  send: {
    fields: { messageId: text },
    open: (given, { fermata, runId }) => fermata.send(runId, "go", given)
  },
  "send of a handle": {
    fields: { whenHeld: words("queue", "supersede"), by: principal, messageId: text },
    open: (given, { handle }) => handle.send("go", given)
  },
  work: {
    fields: {
      onUpdate: callable,
      concurrency: amount,
      pollInterval: duration,
      drainTimeout: duration,
      onTakingUp: callable,
      onTakenUp: callable,
      signal
    },
    open: (given, { fermata }) => fermata.work(given)
  },
  recover: {
    fields: { onUpdate: callable, limit: page["limit"]!, concurrency: amount },
    open: (given, { fermata }) => fermata.recover(given)
  },
  prune: { fields: { endedBefore: required(time) }, open: (given, { fermata }) => fermata.prune(given) },
  events: {
    fields: { from: page["limit"]!, until: words("hold", "end"), signal },
    open: async (given, { fermata, runId }) => {
      for await (const _ of fermata.events(runId, given)) return
    }
  },
  "the filter of runs": {
    fields: { sessionId: text, agent: text, status: ofSchema(Status, "held"), ...page },
    open: (given, { fermata }) => fermata.runs(given)
  },
  "the filter of pending": {
    fields: {
      runId: text,
      sessionId: text,
      kind: ofSchema(Kind, "approval"),
      tool: text,
      agent: text,
      askedBefore: time,
      expiresBefore: time,
      ...page
    },
    open: (given, { fermata }) => fermata.pending(given)
  },
  "the filter of grants": {
    fields: { runId: text, sessionId: text, grantId: text, tool: text, agent: text, ...page },
    open: (given, { fermata }) => fermata.grants(given)
  }
}

const wrongValues: ReadonlyArray<unknown> = [
  null,
  5,
  -1,
  Number.NaN,
  "",
  "3 secs",
  "hot",
  true,
  [],
  {},
  [5],
  { a: 1 },
  () => 1,
  Symbol("s"),
  new Date(0),
  new Map(),
  10n
]

const letters = "abcdefghijklmnopqrstuvwxyz"

/** A key with one letter left out, doubled, exchanged, or in the other case. */
const misspell = (key: string, how: number, at: number): string => {
  const index = at % key.length
  const [before, letter, after] = [key.slice(0, index), key[index]!, key.slice(index + 1)]
  const other = letter === letter.toUpperCase() ? letter.toLowerCase() : letter.toUpperCase()
  return [
    `${before}${after}`,
    `${before}${letter}${letter}${after}`,
    `${before}${letters[at % letters.length]}${after}`,
    `${before}${other}${after}`,
    `${key}s`,
    ` ${key}`
  ][how % 6]!
}

interface Mistake {
  readonly door: string
  readonly given: object
  /** The misspelt key, or the key of the wrong value. */
  readonly key: string
}

const mistake: fc.Arbitrary<Mistake> = fc
  .record({
    door: fc.constantFrom(...Object.keys(doors)),
    seeds: fc.array(fc.nat(), { minLength: 20, maxLength: 20 }),
    isMisspelt: fc.boolean(),
    which: fc.nat(),
    how: fc.nat(),
    at: fc.nat()
  })
  .map(({ at, door, how, isMisspelt, seeds, which }) => {
    const { fields } = doors[door]!
    const names = Object.keys(fields)
    const chosen = names[which % names.length]!
    const given: Record<string, unknown> = {}
    for (const [index, name] of names.entries()) {
      const { examples, isRequired } = fields[name]!
      const seed = seeds[index % seeds.length]!
      if (name === chosen || isRequired === true || seed % 2 === 0)
        given[name] = examples[seed % examples.length]
    }
    if (!isMisspelt) {
      const wrong = wrongValues.filter((value) => !fields[chosen]!.is(value))
      given[chosen] = wrong[how % wrong.length]
      return { door, given, key: chosen }
    }
    const key = misspell(chosen, how, at)
    if (names.includes(key) || key === "")
      return { door, given: { ...given, [`${chosen}_`]: 1 }, key: `${chosen}_` }
    const entries = Object.entries(given).map(
      ([name, value]) => [name === chosen ? key : name, value] as const
    )
    return { door, given: Object.fromEntries(entries), key }
  })

const errors =
  /^(DecisionMalformed|OptionsInvalid|LimitsInvalid|PolicyInvalid|PrincipalInvalid|ContextInvalid|AgentDefinitionError|ToolDefinitionError|RuntimeOptionsInvalid|IdInvalid|RunStoreError|MessageInvalid|AgentNotFound)$/

describe("a random object with one misspelt key or one value of a wrong type", () => {
  it("is refused by every function that takes an object, with a sentence, and nothing is stored", async () => {
    await using fermata = await Fermata.make({ agents: [ops], model, store: layerMemory })
    const { runId } = await fermata.runPrompt("ops", "go")
    const held = {
      fermata,
      runId,
      handle: await fermata.attach(runId),
      conductor: await fermata.conductor()
    }
    const { revision } = await fermata.state(runId)
    await fc.assert(
      fc.asyncProperty(mistake, async ({ door, given, key }) => {
        const outcome: any = await Promise.resolve()
          .then(() => doors[door]!.open(given as never, held))
          .then(
            () => undefined,
            (error: unknown) => error
          )
        assert.isDefined(outcome, `${door} took the mistake in "${key}"`)
        assert.match(outcome._tag, errors, `${door}, ${key}: ${outcome}`)
        assert.isAbove(outcome.message.length, 20)
      }),
      { numRuns: Number(process.env["FERMATA_OBJECTS"] ?? 10_000) }
    )
    assert.lengthOf(await fermata.runs(), 1)
    assert.lengthOf(await fermata.pending(), 1)
    assert.strictEqual((await fermata.state(runId)).revision, revision)
  })
})
