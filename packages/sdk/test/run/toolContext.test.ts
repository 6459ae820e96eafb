/**
 * What a handler receives about its call besides its arguments, and what it publishes.
 */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as HttpClient from "effect/http/HttpClient"
import * as HttpClientResponse from "effect/http/HttpClientResponse"
import * as Schema from "effect/Schema"
import * as Agent from "../../src/agent/Agent.ts"
import { createRuntime } from "../../src/agent/createRuntime.ts"
import type { RunUpdate } from "../../src/agent/RunUpdate.ts"
import type { ApprovalPolicy } from "../../src/domain/ApprovalPolicy.ts"
import { ModelClient } from "../../src/model/ModelClient.ts"
import { runPrompt } from "../../src/run/runPrompt.ts"
import * as ScriptedModel from "../../src/testing/ScriptedModel.ts"
import * as Tool from "../../src/tool/Tool.ts"
import type { CallJudgement, ToolContext, ToolTarget } from "../../src/tool/ToolContext.ts"
import { WebAccess } from "../../src/tool/WebAccess.ts"
import { bind, call, expect, results, safe, watch } from "../helpers/Fixture.ts"
import { SandboxBackend } from "../helpers/SandboxBackend.ts"

const script = [{ calls: [call("work", "1")] }, "done"]

/** Runs a read-only tool with this handler among other tools, and returns its result and what subscribers received. */
const worked = (
  handler: (args: unknown, context: ToolContext<any>) => unknown,
  others: ReadonlyArray<Tool.Tool> = [],
  policy?: ApprovalPolicy
) =>
  Effect.gen(function* () {
    const work = Tool.make("work", { safety: "readOnly", handler: handler as () => unknown })
    const options = policy === undefined ? {} : { policy }
    const { runtime } = yield* bind(Agent.make("a", { tools: [work, ...others], ...options }), script)
    const { onUpdate, updates } = watch()
    const { state } = expect(yield* runPrompt(runtime, { prompt: "go" }, { onUpdate }), "completed")
    return { result: results(state)[0], updates, state }
  })

const published = (updates: ReadonlyArray<RunUpdate>) =>
  updates.flatMap((update): ReadonlyArray<unknown> => {
    if (update._tag === "output") return [[update.stream, update.chunk]]
    return update._tag === "media" ? [[update.path, update.mediaType]] : []
  })

describe("the output of a handler", () => {
  it.effect("is published with the name of its stream, and without one as before", () =>
    Effect.gen(function* () {
      const { updates } = yield* worked((_, { output }) => {
        output({ stream: "stdout", chunk: "one\n" })
        output({ stream: "stderr", chunk: "warning\n" })
        output("plain\n")
      })
      assert.deepStrictEqual(published(updates), [
        ["stdout", "one\n"],
        ["stderr", "warning\n"],
        [undefined, "plain\n"]
      ])
    })
  )

  it.effect(
    "loses a secret that is cut between two chunks of a stream, although another stream writes between them",
    () =>
      Effect.gen(function* () {
        const key = `ghp_${"a1B2c3D4e5F6".repeat(3)}`
        const { updates } = yield* worked((_, { output }) => {
          output({ stream: "stdout", chunk: `key ${key.slice(0, 12)}` })
          output({ stream: "stderr", chunk: "busy\n" })
          output({ stream: "stdout", chunk: `${key.slice(12)}\n` })
        })
        const stdout = published(updates).flatMap((each) =>
          (each as any)[0] === "stdout" ? [(each as any)[1]] : []
        )
        assert.notInclude(stdout.join(""), key.slice(12))
        assert.include(stdout.join(""), "REDACTED")
      })
  )

  it.effect("may be streamed with the names of streams by a generator", () =>
    Effect.gen(function* () {
      const { result, updates } = yield* worked(async function* () {
        yield { output: { stream: "stderr", chunk: "warn\n" } as const }
        yield { result: "built" }
      })
      assert.include(result, "built")
      assert.deepStrictEqual(published(updates), [["stderr", "warn\n"]])
    })
  )

  it.effect("is not stored", () =>
    Effect.gen(function* () {
      const { state } = yield* worked((_, { output }) => output({ stream: "stdout", chunk: "unstored" }))
      assert.notInclude(JSON.stringify(state), "unstored")
    })
  )
})

describe("the media of a handler", () => {
  it.effect("are published by virtual paths, without a directory of the machine", () =>
    Effect.gen(function* () {
      const { result, updates } = yield* worked((_, { media, target }) =>
        [
          media({ path: `${target.cwd}/shots/1.png`, mediaType: "image/png" }),
          media({ path: "/var/secret/2.png", mediaType: "image/png" })
        ].join(" ")
      )
      assert.deepStrictEqual(published(updates), [
        ["/workspace/shots/1.png", "image/png"],
        ["/outside/2.png", "image/png"]
      ])
      assert.include(result, "/workspace/shots/1.png /outside/2.png")
    })
  )
})

describe("the target of a handler", () => {
  it.effect("is this process without a sandbox, and the run's sandbox with one", () =>
    Effect.gen(function* () {
      const targets: Array<ToolTarget> = []
      const here = safe("here", {
        handler: (_: unknown, { target }: ToolContext) => void targets.push(target)
      })
      const there = Tool.make("there", {
        safety: "readOnly",
        sandbox: true,
        handler: (_, { target }) => void targets.push(target)
      })
      const model = ScriptedModel.make([{ calls: [call("here", "1"), { tool: "there" }] }, "done"])
      const runtime = yield* Effect.provideService(
        createRuntime({
          agent: Agent.make("a", { tools: [here.tool, there] }),
          sandbox: new SandboxBackend().provider()
        }),
        ModelClient,
        model.client
      )
      expect(yield* runPrompt(runtime, { prompt: "go" }), "completed")
      assert.deepStrictEqual(
        targets.map(({ isolated, kind }) => [kind, isolated]),
        [
          ["process", false],
          ["memory", false]
        ]
      )
      assert.strictEqual(targets[1]?.description, "memory, for tests")
      assert.isString(targets[1]?.cwd)
    })
  )
})

const get = (_: unknown, { http }: ToolContext) =>
  Effect.flatMap(http, (client) => Effect.flatMap(client.get("http://127.0.0.1:9/"), ({ text }) => text))

describe("the client of a handler", () => {
  it.effect("is that of the program", () =>
    Effect.gen(function* () {
      const client = HttpClient.make((request) =>
        Effect.succeed(HttpClientResponse.fromWeb(request, new Response(`got ${request.url}`)))
      )
      const { result } = yield* Effect.provideService(worked(get), WebAccess, Effect.succeed(client))
      assert.include(result, "got http://127.0.0.1:9/")
    })
  )

  it.effect("is none in a program without one: the call fails, and nothing is requested", () =>
    Effect.gen(function* () {
      const { result } = yield* worked(get)
      assert.include(result, "This program gives its tools no access to the web")
    })
  )
})

describe("the policy of a handler", () => {
  const Amount = Schema.Struct({ amount: Schema.Number })
  const ran: Array<number> = []
  const pay = Tool.make("pay", {
    parameters: Amount,
    needsApproval: ({ amount }) => amount > 10,
    handler: ({ amount }) => void ran.push(amount)
  })
  const judged = (tool: string, args?: unknown, mode?: "ask" | "all" | "none") =>
    Effect.gen(function* () {
      const answers: Array<CallJudgement> = []
      yield* worked(
        (_, { policy }) => Effect.map(policy.judge(tool, args), (answer) => void answers.push(answer)),
        [pay],
        mode === undefined ? undefined : { mode }
      )
      assert.deepStrictEqual(ran, [])
      return answers[0]!
    })

  it.effect("says what would happen to a call, without making it", () =>
    Effect.gen(function* () {
      assert.deepStrictEqual(yield* judged("pay", { amount: 5 }), { _tag: "run", by: "tool" })
      assert.deepStrictEqual(yield* judged("pay", { amount: 50 }), { _tag: "ask" })
      assert.deepStrictEqual(yield* judged("pay", { amount: 50 }, "all"), { _tag: "run", by: "policy all" })
      assert.strictEqual((yield* judged("pay", { amount: 50 }, "none"))._tag, "deny")
    })
  )

  it.effect("knows no tools of other agents, and no arguments that the tool does not take", () =>
    Effect.gen(function* () {
      assert.deepStrictEqual(yield* judged("refund"), { _tag: "unknownTool" })
      assert.strictEqual((yield* judged("pay", { amount: "5" }))._tag, "invalid")
      assert.strictEqual((yield* judged("pay", () => 5))._tag, "invalid")
    })
  )
})
