/**
 * Random stories of runs in one store: sessions of several runs, attached and background sub-agents, handoffs, forks at any revision,
 * pending decisions, messages and cancellations, revoked grants, models that fail or ask for a login, exceeded budgets, effects in
 * doubt. A seed gives the same story in each store, and its model gives the same answer to the same request; failures and logins end
 * with the story.
 */
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import { TestClock } from "effect/testing"
import * as Agent from "../../src/agent/Agent.ts"
import type { Runtime } from "../../src/agent/Runtime.ts"
import type { DecisionInput } from "../../src/domain/Decision.ts"
import type { RunId, SessionId } from "../../src/domain/Id.ts"
import type { Interruption } from "../../src/domain/Interruption.ts"
import type { Limits } from "../../src/domain/Limits.ts"
import { decideStored } from "../../src/durable/decideStored.ts"
import { doubtLaterEffects } from "../../src/durable/doubtLaterEffects.ts"
import { forkRun } from "../../src/durable/forkRun.ts"
import { revokeGrant } from "../../src/durable/revokeGrant.ts"
import { runPromptStored } from "../../src/durable/runPromptStored.ts"
import { sendMessage } from "../../src/durable/sendMessage.ts"
import { InvalidRequest, LoginRequired } from "../../src/model/ModelError.ts"
import { RunStore } from "../../src/store/RunStore.ts"
import { type RunHead } from "../../src/store/RunStorePort.ts"
import * as ScriptedModel from "../../src/testing/ScriptedModel.ts"
import * as Tool from "../../src/tool/Tool.ts"
import { call, probe, rebind } from "./Fixture.ts"

/** A random number generator seeded by a text. */
export const randomOf = (text: string) => {
  let state = 2166136261
  for (let index = 0; index < text.length; index++)
    state = Math.imul(state ^ text.charCodeAt(index), 16777619) >>> 0
  return (below: number): number => {
    state = (state + 0x6d2b79f5) | 0
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state)
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed
    return ((mixed ^ (mixed >>> 14)) >>> 0) % below
  }
}

type Random = ReturnType<typeof randomOf>

const one = <A>(random: Random, items: ReadonlyArray<A>): A => items[random(items.length)]!

/** Agents whose tools record their effects, and a model that follows the seed. */
export const agentsOf = (seed: string) => {
  const effects: Array<string> = []
  const acting = (name: string, options: Parameters<typeof probe>[1]) =>
    probe(name, {
      ...options,
      handler: ({ id }) => {
        effects.push(id)
        return `${name}:${id}`
      }
    }).tool
  const tools = [
    acting("write", { needsApproval: true }),
    acting("soon", { approval: { expiresIn: "1 hour" } }),
    acting("note", { needsApproval: false }),
    Tool.askUser
  ]
  const deep = Agent.make("deep", { tools })
  const helper = Agent.make("helper", { tools, subAgents: [deep], delegation: "delegate" })
  const billing = Agent.make("billing", { tools, description: "Bills" })
  const lead = Agent.make("lead", {
    tools,
    subAgents: [helper, deep],
    delegation: "delegate",
    handoffs: [billing]
  })
  const provider = { hasTrouble: true }
  const model = ScriptedModel.make(({ agentPath, runId, turn }) => {
    const name = agentPath.at(-1)!
    const random = randomOf(`${seed} ${runId} ${name} ${turn}`)
    if (provider.hasTrouble) {
      const trouble = randomOf(`trouble ${seed} ${runId} ${name} ${turn}`)(16)
      if (trouble < 2) return { error: new InvalidRequest({ description: "down" }) }
      if (trouble === 2) return { error: new LoginRequired({ description: "expired", profile: "work" }) }
    }
    if (turn > 3 || random(4) === 0) return `${name} is done`
    const calls = Array.from({ length: 1 + random(3) }, (_, index) => {
      const id = `${runId} ${name} ${turn}.${index}`
      const choice = random(10)
      if (choice < 2 && name !== "deep" && name !== "billing") {
        const agent = name === "lead" ? one(random, ["helper", "deep"]) : "deep"
        return { tool: "delegate", arguments: { agent, prompt: "Help.", background: random(2) === 0 } }
      }
      if (choice === 2 && name === "lead") return { tool: "transfer_to_billing", arguments: {} }
      if (choice === 3) return { tool: "ask_user", arguments: { question: "Which?" } }
      return call(one(random, ["write", "write", "soon", "note"]), id)
    })
    return { calls }
  })
  return { effects, provider, process: Effect.map(rebind(lead, model), ({ runtime }) => runtime) }
}

/** The widest scope of a grant for a request. */
const scopeFor = ({ agentPath }: Interruption) => (agentPath.length > 1 ? "run" : "session")

/** The decision on a request, the same in every store. */
const answerTo = (seed: string, request: Interruption): DecisionInput | undefined => {
  const { requestId } = request
  const random = randomOf(`${seed} ${requestId}`)
  const by = "ann"
  if (request._tag === "approval") {
    const { digest } = request
    if (random(8) === 0) return { _tag: "deny", requestId, by }
    if (random(12) === 0) return { _tag: "deny", requestId, by, then: "stop" }
    const grant =
      random(3) === 0
        ? { grant: { scope: scopeFor(request), inherit: random(2) === 0, arguments: {} } as const }
        : {}
    return { _tag: "approve", requestId, by, digest, ...grant }
  }
  switch (request._tag) {
    case "question":
      return { _tag: "answer", requestId, by, answer: "That one." }
    case "login":
      return { _tag: random(6) === 0 ? "deny" : "retry", requestId, by }
    case "limit":
      return random(4) === 0
        ? { _tag: "deny", requestId, by }
        : { _tag: "topUp", requestId, by, limit: request.limit + 4 }
    case "inDoubt":
      return random(3) === 0
        ? { _tag: "supply", requestId, by, result: "was done" }
        : { _tag: random(3) === 0 ? "fail" : "retry", requestId, by }
  }
}

const isLive = ({ status }: RunHead) => status === "running" || status === "held"

/** Performs a story in the store. Refused steps have no effect. */
export const playStory = Effect.fnUntraced(function* (seed: string, runtime: Runtime<any>) {
  const store = yield* RunStore
  const random = randomOf(`story ${seed}`)
  let made = 0
  const next = (what: string) => `${what}${(made += 1)}` as RunId
  const step = Effect.fnUntraced(function* () {
    const heads = yield* store.list()
    if (heads.length === 0 || random(6) === 0) {
      const sessionId = one(random, ["s1", "s2"]) as SessionId
      const limits = one<Partial<Limits>>(random, [
        {},
        {},
        { maxTurns: 1 },
        { maxToolCalls: 0 },
        { maxToolCalls: 1 },
        { maxTreeTurns: 3, wrapUp: true }
      ])
      yield* runPromptStored(runtime, { prompt: "Do it.", sessionId, runId: next("run-"), limits })
      return
    }
    const { revision, runId } = one(random, heads)
    const pending = yield* store.pending()
    switch (random(13)) {
      case 10: {
        // The decided calls have not started, so they are in doubt.
        const decided = heads.find(({ status }) => status === "held") ?? { runId }
        for (const { request } of yield* store.pending({ runId: decided.runId })) {
          const decision = answerTo(seed, request)
          if (decision !== undefined) yield* Effect.result(decideStored([runtime], decision))
        }
        yield* doubtLaterEffects
        yield* runPromptStored(runtime, { runId: decided.runId })
        return
      }
      case 11: {
        const failed = heads.filter(({ status }) => status === "error")
        if (failed.length > 0) yield* store.requestCancel(one(random, failed).runId, "gave up")
        return
      }
      case 0:
      case 1: {
        if (pending.length === 0) return
        const decision = answerTo(seed, one(random, pending).request)
        if (decision !== undefined) yield* decideStored([runtime], decision)
        return
      }
      case 2:
        yield* runPromptStored(runtime, { runId })
        return
      case 3: {
        const to = pending.length > 0 && random(2) === 0 ? one(random, pending).request.runId : runId
        yield* sendMessage(to, "And be quick.", { messageId: next("m") })
        return
      }
      case 4:
        yield* store.requestCancel(runId, "changed my mind")
        return
      case 8:
      case 9: {
        const grants = (yield* store.grants()).filter(({ grant }) => grant.revoked === undefined)
        const approvals = pending.flatMap(({ request }) => (request._tag === "approval" ? [request] : []))
        if (grants.length > 0 && (approvals.length === 0 || random(2) === 0)) {
          const { grant, runId } = one(random, grants)
          yield* revokeGrant(runId, grant.id, "ben")
        } else if (approvals.length > 0) {
          const asked = one(random, approvals)
          const { digest, requestId } = asked
          const grant = { scope: scopeFor(asked), arguments: {}, inherit: true } as const
          yield* decideStored([runtime], { _tag: "approve", requestId, by: "ann", digest, grant })
        }
        return
      }
      case 5:
        yield* TestClock.adjust(one(random, ["1 second", "1 minute", "2 hours"]))
        return
      default: {
        const at = random(3) === 0 ? {} : { revision: 1 + random(revision) }
        const prompt = "Otherwise."
        const sessionId = `of-${made}` as SessionId
        yield* forkRun(runtime, { runId, prompt, newRunId: next("fork-"), sessionId, ...at })
      }
    }
  })
  for (let left = 8 + random(10); left > 0; left--) yield* Effect.result(step())
  // Some runs are working when they are copied.
  for (const head of (yield* store.list()).filter((head) => isLive(head) && random(8) === 0)) {
    const { revision, runId } = head
    const lease = yield* store.claim({ runId, owner: "another", ttl: "1 minute" })
    const events = [{ _tag: "run.resumed", at: 5 }] as const
    yield* store.append({ lease, expected: revision, events, status: "running" })
  }
})

/** Decides all requests of these runs and resumes the runs until nothing is open, in the same order each time. */
export const finish = Effect.fnUntraced(function* (
  seed: string,
  runtime: Runtime<any>,
  runs: ReadonlyArray<RunId>
) {
  const store = yield* RunStore
  const refusals: Array<string> = []
  for (let round = 0; round < 12; round++) {
    for (const runId of runs) {
      for (const { request } of yield* store.pending({ runId })) {
        const decision = answerTo(seed, request)
        const decided = yield* Effect.result(
          decision === undefined ? Effect.void : decideStored([runtime], decision)
        )
        if (Result.isFailure(decided)) refusals.push(`${request.requestId} ${decided.failure._tag}`)
      }
      const driven = yield* Effect.result(runPromptStored(runtime, { runId }))
      if (Result.isFailure(driven)) refusals.push(`${runId} ${driven.failure._tag}`)
    }
  }
  return refusals
})
