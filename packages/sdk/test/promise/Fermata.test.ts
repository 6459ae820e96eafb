import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { z } from "zod"
import type { RunUpdate } from "../../src/agent/RunUpdate.ts"
import { textOf } from "../../src/domain/Message.ts"
import { AlreadyDecided } from "../../src/domain/Rejection.ts"
import { EmptyPrompt } from "../../src/domain/RunError.ts"
import { messages } from "../../src/domain/RunState.ts"
import { answer, approve, deny, supply } from "../../src/promise/decisions.ts"
import { agent, askUser, tool } from "../../src/promise/define.ts"
import * as Fermata from "../../src/promise/Fermata.ts"
import {
  isAgentNotFound,
  isAlreadyDecided,
  isFermataClosed,
  isArgumentsChanged,
  isEditedArgumentsInvalid,
  isEmptyPrompt,
  isRunBusy,
  isRunSuspended,
  isRunNotFound,
  isToolNameTaken
} from "../../src/promise/guards.ts"
import { layerMemory, RunStore } from "../../src/store/RunStore.ts"
import { RunNotFound } from "../../src/store/RunStoreError.ts"
import * as ScriptedModel from "../../src/testing/ScriptedModel.ts"
import { make as makeScrubber } from "../../src/tool/Scrubber.ts"

/** A store that several Fermatas share, like processes that share a file. */
const shared = () => Layer.succeed(RunStore, Effect.runSync(Effect.provide(RunStore, layerMemory)))

/** An agent with a zod tool that needs approval, and the calls that ran. */
const keeper = () => {
  const deployed: Array<string> = []
  const deploy = tool("deploy", {
    description: "Deploys",
    parameters: z.object({ env: z.enum(["staging", "production"]), replicas: z.number().default(1) }),
    handler: async ({ env, replicas }) => {
      deployed.push(`${env}x${replicas}`)
      return `deployed to ${env}`
    }
  })
  return { deployed, agent: agent("keeper", { tools: [deploy] }) }
}

const toDeploy = { calls: [{ tool: "deploy", arguments: { env: "staging" } }] }

const make = (script: ReadonlyArray<ScriptedModel.Script>, options: Partial<Fermata.FermataOptions> = {}) => {
  const model = ScriptedModel.make(script)
  return Fermata.make({ agents: [keeper().agent], model: model.client, store: layerMemory, ...options })
}

const rejects = async (promise: Promise<unknown>): Promise<unknown> => {
  try {
    await promise
  } catch (error) {
    return error
  }
  return assert.fail("it did not reject")
}

const opened = async (fermata: Fermata.Fermata, prompt = "deploy") => {
  const result = await fermata.runPrompt("keeper", prompt)
  assert.strictEqual(result.status, "interrupted")
  const [pending] = await fermata.pending({ runId: result.runId })
  assert.isDefined(pending)
  return { runId: result.runId, pending: pending! }
}

describe("a Fermata", () => {
  it("streams what a tool yields, and cuts its result to maxResultLength", async () => {
    const build = tool("build", {
      safety: "readOnly",
      handler: async function* () {
        yield { output: "main.ts" }
        yield { result: "abcdefghij" }
      }
    })
    const agents = [agent("ci", { tools: [build] })]
    await using fermata = await make([{ calls: [{ tool: "build" }] }, "done"], { agents, maxResultLength: 6 })
    const updates: Array<RunUpdate> = []
    const onUpdate = (update: RunUpdate) => void updates.push(update)
    const { state } = await fermata.runPrompt("ci", "Build it", { onUpdate })
    assert.deepInclude(
      updates.find(({ _tag }) => _tag === "output"),
      { chunk: "main.ts" }
    )
    const result = messages(state).find(({ role }) => role === "tool")
    assert.match(
      textOf(result?.content ?? []),
      /^abc\n\[… 4 of 10 characters are missing here; the id of the whole text is [0-9a-f]{16} …\]\nhij$/
    )
  })

  it("holds a run at a call that needs approval, and another Fermata resumes it by its id", async () => {
    const store = shared()
    const { agent, deployed } = keeper()
    let runId = ""
    {
      await using first = await make([toDeploy], { agents: [agent], store })
      ;({ runId } = await opened(first))
      assert.deepStrictEqual(deployed, [])
    }
    await using second = await make(["done"], { agents: [agent], store, by: "ann" })
    const [pending] = await second.pending()
    assert.strictEqual(pending?.runId, runId)
    assert.deepInclude(pending?.request, { tool: "deploy", arguments: { env: "staging", replicas: 1 } })
    const decision = await second.decide(pending!, approve())
    assert.deepInclude(decision, { _tag: "approve", by: "ann" })
    const result = await second.resume(runId)
    assert.strictEqual(result.status === "completed" && result.text, "done")
    assert.deepStrictEqual(deployed, ["stagingx1"])
    assert.deepStrictEqual(await second.pending(), [])
    assert.deepStrictEqual(
      (await second.runs()).map(({ status }) => status),
      ["completed"]
    )
  })

  it("takes decisions in `resume` and by request id", async () => {
    const { agent, deployed } = keeper()
    await using fermata = await make([toDeploy, "one", toDeploy, "two", toDeploy, "three"], {
      agents: [agent]
    })
    const one = await opened(fermata)
    const { requestId } = one.pending.request
    await fermata.resume(one.runId, { decisions: [{ ...deny("no"), requestId, by: "bob" }] })
    const two = await opened(fermata)
    await fermata.decide(two.pending.request.requestId, supply("as good as deployed"), {
      by: "cho",
      note: "by hand"
    })
    const supplied = await fermata.resume(two.runId)
    assert.deepInclude(supplied.state.requests[0]?.decision, { by: "cho", note: "by hand" })
    const three = await opened(fermata)
    await fermata.decide(three.pending.request, approve({ arguments: { env: "production", replicas: 3 } }))
    await fermata.resume(three.runId)
    assert.deepStrictEqual(deployed, ["productionx3"])
  })

  it("takes none of the decisions of a resume when one of them is refused", async () => {
    const { agent, deployed } = keeper()
    const call = toDeploy.calls[0]!
    await using fermata = await make([{ calls: [call, call] }, "done"], { agents: [agent] })
    const { runId } = await fermata.runPrompt(agent, "go")
    const [first, second] = (await fermata.pending()).map(({ request }) => request.requestId)
    const decisions = [
      { ...approve(), requestId: first!, by: "bob" },
      { ...approve(), requestId: second!, by: "bob" }
    ]
    await fermata.decide(second!, deny("no"), { by: "ann" })
    assert.isTrue(isAlreadyDecided(await rejects(fermata.resume(runId, { decisions }))))
    const waiting = await fermata.pending()
    assert.deepStrictEqual(
      waiting.map(({ request }) => request.requestId),
      [first]
    )
    await fermata.resume(runId, { decisions: decisions.slice(0, 1) })
    assert.deepStrictEqual(deployed, ["stagingx1"])
  })

  it("rejects a decision with a digest of other arguments", async () => {
    await using fermata = await make([toDeploy])
    const { pending } = await opened(fermata)
    assert.strictEqual(pending.request._tag, "approval")
    const shown = { ...pending.request, digest: "0".repeat(64) } as typeof pending.request
    assert.isTrue(isArgumentsChanged(await rejects(fermata.decide(shown, approve()))))
    await fermata.decide(pending.request.requestId, approve())
  })

  it("decides a question with an answer", async () => {
    await using fermata = await make(
      [{ calls: [{ tool: "ask_user", arguments: { question: "Which?" } }] }, "done"],
      { agents: [agent("keeper", { tools: [askUser] })] }
    )
    const { runId, pending } = await opened(fermata)
    await fermata.decide(pending, answer("the blue one"))
    assert.strictEqual((await fermata.resume(runId)).status, "completed")
    assert.include(JSON.stringify(await fermata.state(runId)), "the blue one")
  })

  it("throws the errors of the core, which the guards recognize", async () => {
    await using fermata = await make([toDeploy, "done"])
    const { runId, pending } = await opened(fermata)
    assert.instanceOf(await rejects(fermata.runPrompt("keeper", " ")), EmptyPrompt)
    const missing = await rejects(fermata.resume("nowhere"))
    assert.instanceOf(missing, RunNotFound)
    assert.isTrue(isRunNotFound(missing))
    assert.isTrue(isAgentNotFound(await rejects(fermata.runPrompt("stranger", "hi"))))
    const edited = await rejects(fermata.decide(pending, approve({ arguments: { env: "moon" } })))
    assert.isTrue(isEditedArgumentsInvalid(edited))
    await fermata.decide(pending, approve(), { by: "ann" })
    const late = await rejects(fermata.decide(pending, deny(), { by: "bob" }))
    assert.instanceOf(late, AlreadyDecided)
    assert.isTrue(isAlreadyDecided(late) && late.by === "ann")
    await fermata.resume(runId)
  })

  it("guards recognize errors of another copy of the package by tag", () => {
    assert.isTrue(isEmptyPrompt({ _tag: "EmptyPrompt" }))
    assert.isFalse(isEmptyPrompt({ _tag: "RunBusy" }))
    for (const other of [null, undefined, "EmptyPrompt", new Error("EmptyPrompt")])
      assert.isFalse(isEmptyPrompt(other))
    const foreign: unknown = { _tag: "RunBusy", owner: "two", until: 7 }
    assert.strictEqual(isRunBusy(foreign) && foreign.owner, "two")
  })

  it("is not made from an invalid agent", async () => {
    const twice = tool("deploy", { handler: () => "" })
    const error = await rejects(make([], { agents: [agent("a", { tools: [twice, twice] })] }))
    assert.isTrue(isToolNameTaken(error))
  })

  it("reports changes of the program since a run was stored", async () => {
    const store = shared()
    await using first = await make([toDeploy], { store })
    const { runId } = await opened(first)
    assert.deepStrictEqual(await first.checkResume(runId), { changes: [], blocking: [] })
    await using second = await make([], { store, agents: [agent("keeper")] })
    const { blocking, changes } = await second.checkResume(runId)
    assert.deepStrictEqual(
      [changes.map(({ _tag }) => _tag), blocking.map(({ _tag }) => _tag)],
      [["toolRemoved"], ["ToolUnavailable"]]
    )
    await using third = await make([], { store, agents: [] })
    assert.strictEqual((await third.checkResume(runId)).blocking[0]?._tag, "AgentNotFound")
  })

  it("resumes a run of a renamed agent by its alias", async () => {
    const store = shared()
    await using first = await make([toDeploy], { store })
    const { runId, pending } = await opened(first)
    const { deployed, agent: old } = keeper()
    const renamed = agent("warden", { tools: old.options.tools ?? [], aliases: ["keeper"] })
    await using second = await make(["done"], { store, agents: [renamed] })
    await second.decide(pending, approve())
    assert.strictEqual((await second.resume(runId)).status, "completed")
    assert.deepStrictEqual(deployed, ["stagingx1"])
  })

  it("revokes a grant and removes a run", async () => {
    const { agent, deployed } = keeper()
    await using fermata = await make([toDeploy, "done", toDeploy], { agents: [agent] })
    const { runId, pending } = await opened(fermata)
    await fermata.decide(pending, approve({ grant: { scope: "session", arguments: {} } }))
    const { state, sessionId } = await fermata.resume(runId)
    await fermata.revokeGrant(runId, state.grants[0]!.id, { by: "bob" })
    const next = await fermata.runPrompt("keeper", "again", { sessionId })
    assert.strictEqual(next.status, "interrupted")
    assert.deepStrictEqual(deployed, ["stagingx1"])
    await fermata.cancel(next.runId)
    await fermata.remove(next.runId)
    assert.isTrue(isRunNotFound(await rejects(fermata.state(next.runId))))
  })

  it("redacts secrets with its scrubber", async () => {
    const leak = tool("leak", { safety: "readOnly", handler: () => "open sesame" })
    await using fermata = await make([{ calls: [{ tool: "leak" }] }, "done"], {
      agents: [agent("keeper", { tools: [leak] })],
      scrubber: makeScrubber({ secrets: ["open sesame"] })
    })
    const { state } = await fermata.runPrompt("keeper", "go")
    assert.notInclude(JSON.stringify(state), "sesame")
  })

  it("decodes structured output with a zod schema", async () => {
    const weather = agent("weather", {
      output: z.object({ city: z.string(), rain: z.boolean().default(false) })
    })
    await using fermata = await make(['{"city":"Rome"}'], { agents: [weather] })
    const result = await fermata.runPrompt(weather, "go")
    assert.deepStrictEqual(result.status === "completed" && result.output, { city: "Rome", rain: false })
  })
})

describe("the end of a run", () => {
  /** A tool that runs until its signal aborts, and a promise of its start. */
  const endless = (options: { readonly safety?: "readOnly"; readonly needsApproval?: false } = {}) => {
    let begin = () => {}
    const begun = new Promise<void>((resolve) => (begin = resolve))
    const wait = tool("wait", {
      ...(options.needsApproval === undefined ? { safety: "readOnly" } : options),
      handler: (_, { signal }) =>
        new Promise<string>((_, reject) => {
          signal.addEventListener("abort", () => reject(signal.reason as Error))
          begin()
        })
    })
    return { begun, agent: agent("keeper", { tools: [wait] }) }
  }
  const toWait = { calls: [{ tool: "wait" }] }

  it("removes the listeners from the run's signal", async () => {
    await using fermata = await make(["one", "two", "three"])
    const { signal } = new AbortController()
    const listening = new Set<unknown>()
    const add = signal.addEventListener.bind(signal)
    const remove = signal.removeEventListener.bind(signal)
    signal.addEventListener = (...given: Parameters<typeof add>) => {
      listening.add(given[1])
      add(...given)
    }
    signal.removeEventListener = (...given: Parameters<typeof remove>) => {
      listening.delete(given[1])
      remove(...given)
    }
    await fermata.runPrompt("keeper", "go", { signal })
    await (await fermata.dispatch("keeper", "go", { signal })).done()
    await fermata.runPrompt("keeper", "go", { signal })
    assert.strictEqual(listening.size, 0)
  })

  it("follows an abort of the run's signal, with its reason", async () => {
    const { begun, agent } = endless()
    await using fermata = await make([toWait], { agents: [agent] })
    const controller = new AbortController()
    const running = fermata.runPrompt("keeper", "go", { signal: controller.signal })
    await begun
    controller.abort(new Error("the request was closed"))
    const result = await running
    assert.strictEqual(result.status === "cancelled" && result.reason, "the request was closed")
  })

  it("follows `cancel` of a held run", async () => {
    await using fermata = await make([toDeploy])
    const { runId } = await opened(fermata)
    await fermata.cancel(runId, "not today")
    const result = await fermata.resume(runId)
    assert.strictEqual(result.status === "cancelled" && result.reason, "not today")
  })

  it("is not caused by `close`, which suspends the run for the next process", async () => {
    const { begun, agent } = endless({ needsApproval: false })
    const store = shared()
    const quick = { drainTimeout: "10 millis", cancelGrace: "10 millis" } as const
    const fermata = await make([toWait], { agents: [agent], store, ...quick })
    const running = rejects(fermata.runPrompt("keeper", "go", { runId: "r" }))
    await begun
    await fermata.close()
    assert.isTrue(isRunSuspended(await running))
    await using next = await make(["done"], { agents: [agent], store })
    const [head] = await next.runs()
    assert.strictEqual(head?.status, "running")
    assert.isUndefined(head?.lease)
    // The tool was interrupted, so its call is in doubt.
    const held = await next.resume("r")
    assert.strictEqual(held.status === "interrupted" && held.interruptions[0]?._tag, "inDoubt")
    const [pending] = await next.pending()
    await next.decide(pending!, supply("it happened"))
    assert.strictEqual((await next.resume("r")).status, "completed")
    await fermata.close()
  })

  it("does not precede the result of a body that finishes during `close`", async () => {
    const store = shared()
    const began = Promise.withResolvers<void>()
    const finish = Promise.withResolvers<string>()
    const wait = tool("wait", {
      needsApproval: false,
      handler: () => {
        began.resolve()
        return finish.promise
      }
    })
    const agents = [agent("keeper", { tools: [wait] })]
    const fermata = await make([toWait], { agents, store, drainTimeout: "1 minute" })
    const running = rejects(fermata.runPrompt("keeper", "go", { runId: "r" }))
    await began.promise
    const closed = fermata.close()
    finish.resolve("it is done")
    await closed
    assert.isTrue(isRunSuspended(await running))
    await using next = await make(["done"], { agents, store })
    const done = await next.resume("r")
    assert.strictEqual(done.status, "completed")
    assert.include(JSON.stringify(done.state.history), "it is done")
  })

  it("ends a completion that waits for its token", async () => {
    const fermata = await make([], { agents: [agent("keeper")] })
    const waiting = rejects(fermata.complete("job", { result: 1 }))
    await fermata.runs()
    await fermata.close()
    assert.isTrue(isFermataClosed(await waiting))
  })

  it("is awaited by other processes, for which the run is busy", async () => {
    const { begun, agent } = endless()
    const store = shared()
    const quick = { drainTimeout: "10 millis", cancelGrace: "10 millis" } as const
    const first = await make([toWait], { agents: [agent], store, owner: "first", ...quick })
    await using second = await make([], { agents: [agent], store })
    const running = rejects(first.runPrompt("keeper", "go", { runId: "r" }))
    await begun
    const error = await rejects(second.resume("r"))
    assert.isTrue(isRunBusy(error) && error.owner === "first")
    await first.close()
    await running
  })
})

describe("the events of a run", () => {
  const collect = async (updates: AsyncIterable<RunUpdate>) => {
    const seen: Array<RunUpdate> = []
    for await (const update of updates) seen.push(update)
    return seen
  }
  const tags = (updates: ReadonlyArray<RunUpdate>) =>
    updates.flatMap((update) => (update._tag === "event" ? [update.event._tag] : []))
  const revisions = (updates: ReadonlyArray<RunUpdate>) =>
    updates.flatMap((update) => (update._tag === "event" ? [update.revision] : []))
  const counting = (count: number) => Array.from({ length: count }, (_, index) => index + 1)

  it("are replayed from the store up to the hold", async () => {
    await using fermata = await make([toDeploy])
    const { runId } = await opened(fermata)
    const seen = await collect(fermata.events(runId))
    assert.deepStrictEqual(tags(seen), [
      "run.started",
      "model.answered",
      "tool.classified",
      "request.opened",
      "run.held"
    ])
    assert.deepStrictEqual(revisions(seen), counting(5))
  })

  it("start after the given revision", async () => {
    await using fermata = await make([toDeploy])
    const { runId } = await opened(fermata)
    assert.deepStrictEqual(tags(await collect(fermata.events(runId, { from: 3 }))), [
      "request.opened",
      "run.held"
    ])
    assert.deepStrictEqual(await collect(fermata.events(runId, { from: 5 })), [])
  })

  it("continue over a hold to the end of the run, without a gap", async () => {
    await using fermata = await make([toDeploy, { text: "abcdef", chunkSize: 2 }])
    const { runId, pending } = await opened(fermata)
    const watching = collect(fermata.events(runId, { until: "end" }))
    await fermata.decide(pending, approve())
    await fermata.resume(runId)
    const seen = await watching
    assert.deepStrictEqual(tags(seen).slice(-3), ["tool.completed", "model.answered", "run.completed"])
    assert.deepStrictEqual(revisions(seen), counting(revisions(seen).length))
    const text = seen.flatMap((update) =>
      update._tag === "delta" && update.part._tag === "text-delta" ? [update.part.delta] : []
    )
    assert.strictEqual(text.join(""), "abcdef")
  })

  it("reach a slow reader completely, with merged deltas", async () => {
    const pieces = 500
    await using fermata = await make([toDeploy, { text: "x".repeat(pieces), chunkSize: 1 }])
    const { runId, pending } = await opened(fermata)
    await fermata.decide(pending, approve())
    const reader = fermata.events(runId, { until: "end" })[Symbol.asyncIterator]()
    const seen: Array<RunUpdate> = []
    const first = await reader.next()
    if (first.done !== true) seen.push(first.value)
    // The reader does not read while the run works.
    await fermata.resume(runId)
    for (let next = await reader.next(); next.done !== true; next = await reader.next()) seen.push(next.value)
    assert.deepStrictEqual(revisions(seen), counting(revisions(seen).length))
    assert.strictEqual(tags(seen).at(-1), "run.completed")
    const deltas = seen.flatMap((update) =>
      update._tag === "delta" && update.part._tag === "text-delta" ? [update.part.delta] : []
    )
    assert.strictEqual(deltas.join(""), "x".repeat(pieces))
    assert.isBelow(deltas.length, 3)
  })

  it("reach an absent reader completely, with a bounded amount of transient output", async () => {
    const chunk = "x".repeat(20_000)
    const noisy = tool("noisy", {
      needsApproval: false,
      handler: async (_, { output, progress }) => {
        for (let index = 0; index < 4; index += 1) {
          output(chunk)
          progress(`${index} ${chunk}`)
        }
        return "done"
      }
    })
    const turns = 50
    const script = Array.from({ length: turns }, () => ({ calls: [{ tool: "noisy" }, { tool: "noisy" }] }))
    await using fermata = await Fermata.make({
      agents: [agent("ops", { tools: [noisy], limits: { maxTurns: 1000 } })],
      model: ScriptedModel.make([...script, "done"]).client,
      store: layerMemory
    })
    const begun = Promise.withResolvers<void>()
    const run = fermata.runPrompt("ops", "go", { runId: "r", onUpdate: () => begun.resolve() })
    await begun.promise
    const reader = fermata.events("r", { until: "end" })[Symbol.asyncIterator]()
    const seen: Array<RunUpdate> = []
    const first = await reader.next()
    if (first.done !== true) seen.push(first.value)
    await run
    for (let next = await reader.next(); next.done !== true; next = await reader.next()) seen.push(next.value)
    assert.deepStrictEqual(revisions(seen), counting(revisions(seen).length))
    assert.isAbove(seen.length, 3 * turns)
    assert.strictEqual(tags(seen).at(-1), "run.completed")
    let held = 0
    for (const update of seen) {
      if (update._tag === "output") held += update.chunk.length
      if (update._tag === "progress") held += update.message.length
    }
    assert.isBelow(held, 1_000_000)
  })

  it("include those of another process", async () => {
    const store = shared()
    await using first = await make([toDeploy], { store })
    await using second = await make(["done"], { store })
    const { runId, pending } = await opened(first)
    const watching = collect(first.events(runId, { until: "end" }))
    await second.decide(pending, deny("no"))
    await second.resume(runId)
    const seen = await watching
    assert.strictEqual(tags(seen).at(-1), "run.completed")
    assert.deepStrictEqual(revisions(seen), counting(revisions(seen).length))
  })

  it("end when the Fermata is closed, and reject for an unknown run", async () => {
    const fermata = await make([toDeploy])
    const { runId } = await opened(fermata)
    assert.isTrue(isRunNotFound(await rejects(collect(fermata.events("nowhere")))))
    const watching = collect(fermata.events(runId, { until: "end" }))
    await fermata.close()
    await watching
  })

  it("can be left before the end", async () => {
    await using fermata = await make([toDeploy])
    const { runId } = await opened(fermata)
    for await (const update of fermata.events(runId, { until: "end" })) {
      assert.strictEqual(update._tag, "event")
      break
    }
  })
})
