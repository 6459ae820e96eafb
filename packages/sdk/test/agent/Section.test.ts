import { assert, describe, it } from "@effect/vitest"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Agent from "../../src/agent/Agent.ts"
import { createRuntime } from "../../src/agent/createRuntime.ts"
import * as RuntimeExtension from "../../src/agent/RuntimeExtension.ts"
import * as Section from "../../src/agent/Section.ts"
import { textOf } from "../../src/domain/Message.ts"
import { messages } from "../../src/domain/RunState.ts"
import { ModelClient } from "../../src/model/ModelClient.ts"
import type { ModelRequest } from "../../src/model/ModelRequest.ts"
import { runPrompt } from "../../src/run/runPrompt.ts"
import * as ScriptedModel from "../../src/testing/ScriptedModel.ts"
import * as Tool from "../../src/tool/Tool.ts"
import { bind, call, expect, safe } from "../helpers/Fixture.ts"
import { SandboxBackend } from "../helpers/SandboxBackend.ts"

/** The text of the last message of a request. */
const lastOf = ({ messages }: ModelRequest): string => textOf(messages.at(-1)?.content ?? [])

describe("a section", () => {
  it.effect("is rendered before each model call, behind the history, and is not stored", () =>
    Effect.gen(function* () {
      const agent = Agent.make("a", {
        tools: [safe().tool],
        sections: [
          Section.make("Turn", ({ turn }) => `number ${turn}`),
          Section.make("Empty", () => undefined)
        ]
      })
      const { model, runtime } = yield* bind(agent, [{ calls: [call("safe", "1")] }, "done"])
      const { state } = expect(yield* runPrompt(runtime, { prompt: "go" }), "completed")
      assert.deepStrictEqual(model.requests.map(lastOf), ["[Turn]\nnumber 1", "[Turn]\nnumber 2"])
      assert.deepStrictEqual(
        model.requests.map(({ transientMessages }) => transientMessages),
        [1, 1]
      )
      // What precedes the sections is repeated as it was.
      const [first, second] = model.requests
      assert.deepStrictEqual(second?.messages.slice(0, 1), first?.messages.slice(0, 1))
      assert.notInclude(JSON.stringify(messages(state)), "number")
    })
  )

  it.effect("uses services, and says that it cannot be shown when it fails, while the turn goes on", () =>
    Effect.gen(function* () {
      class Clock extends Context.Service<Clock, { readonly time: string }>()("test/Clock") {}
      const agent = Agent.make("a", {
        sections: [
          Section.make("Time", () => Effect.map(Clock, ({ time }) => time)),
          Section.make("Broken", () => Promise.reject(new Error("the disk is gone"))),
          Section.make("Number", () => 7 as unknown as string)
        ]
      })
      const { model, runtime } = yield* Effect.provideService(bind(agent, ["done"]), Clock, { time: "noon" })
      expect(yield* runPrompt(runtime, { prompt: "go" }), "completed")
      const last = lastOf(model.requests[0]!)
      assert.include(last, "[Time]\nnoon")
      assert.include(last, "This section cannot be shown: the disk is gone")
      assert.include(last, "did not return a text")
    })
  )

  it.effect("contains no secret, and is cut in its middle beyond 20,000 characters", () =>
    Effect.gen(function* () {
      const secret = `ghp_${"a1B2".repeat(9)}`
      const agent = Agent.make("a", {
        sections: [Section.make("Key", () => secret), Section.make("Long", () => `a${"b".repeat(30_000)}c`)]
      })
      const { model, runtime } = yield* bind(agent, ["done"])
      yield* runPrompt(runtime, { prompt: "go" })
      const last = lastOf(model.requests[0]!)
      assert.notInclude(last, secret)
      assert.include(last, "10002 characters are left out")
      assert.isTrue(last.endsWith("c"))
      assert.isBelow(last.length, 21_000)
    })
  )

  it.effect("of an extension follows those of the agent", () =>
    Effect.scoped(
      Effect.gen(function* () {
        const model = ScriptedModel.make(["done"])
        const runtime = yield* Effect.provideService(
          createRuntime({
            agent: Agent.make("a", { sections: [Section.make("Own", () => "1")] }),
            extensions: [
              RuntimeExtension.make("more", {
                sections: ({ mode }) => [Section.make("Mode", () => mode)]
              })
            ]
          }),
          ModelClient,
          model.client
        )
        yield* runPrompt(runtime, { prompt: "go" })
        assert.strictEqual(lastOf(model.requests[0]!), "[Own]\n1[Mode]\ndefault")
      })
    )
  )

  it.effect("with the name of another one is refused, as is one that is none", () =>
    Effect.gen(function* () {
      const twice = Agent.make("a", {
        sections: [Section.make("A", () => "1"), Section.make("A", () => "2")]
      })
      const error = yield* Effect.flip(bind(twice, []))
      assert.include(error.message, 'two of its sections have the name "A"')
      assert.throws(() => Agent.make("a", { sections: [{ name: "A" } as never] }), "Section.make")
    })
  )

  it.effect("shows the screen of an open sandbox", () =>
    Effect.gen(function* () {
      const act = Tool.make("act", {
        safety: "readOnly",
        sandbox: true,
        handler: (_, { sandbox }) => Effect.map(sandbox.exec("ls"), ({ stdout }) => stdout)
      })
      const agent = Agent.make("a", { tools: [act], sections: [Section.screen()] })
      const model = ScriptedModel.make([{ calls: [{ tool: "act" }] }, "done"])
      const runtime = yield* Effect.provideService(
        createRuntime({ agent, sandbox: new SandboxBackend().provider({ screen: "$ ls\nREADME.md" }) }),
        ModelClient,
        model.client
      )
      expect(yield* runPrompt(runtime, { prompt: "go" }), "completed")
      assert.strictEqual(model.requests[0]?.transientMessages, undefined)
      assert.strictEqual(lastOf(model.requests[1]!), "[Terminal]\n$ ls\nREADME.md")
    }).pipe(Effect.scoped)
  )
})
