import { assert, describe, it } from "@effect/vitest"
import { Agent, Runtime, Tool } from "@fermata/node"
import { SqliteStore } from "@fermata/node"
import { FermataClient, FermataServer } from "@fermata/node/http"
import { ScriptedModel } from "@fermata/sdk/testing"
import * as Effect from "effect/Effect"
import * as FetchHttpClient from "effect/http/FetchHttpClient"
import * as Layer from "effect/Layer"
import * as Redacted from "effect/Redacted"
import * as Stream from "effect/Stream"

const pay = Tool.make("pay", { handler: () => "paid" })

/** A server on a store in memory, with a client of it. */
const client = Layer.unwrap(
  Effect.map(FermataServer.FermataServer, ({ token, url }) =>
    FermataClient.layer({ url, token: token === undefined ? undefined : Redacted.value(token) })
  )
).pipe(
  Layer.provide(
    FermataServer.layer(
      Effect.map(Runtime.make({ agent: Agent.make("clerk", { tools: [pay] }) }), (runtime) => ({
        agents: [runtime] as const
      }))
    )
  ),
  Layer.provide(SqliteStore.layer({ filename: ":memory:" })),
  Layer.provide(
    ScriptedModel.make(({ turn }) => (turn % 2 === 1 ? { calls: [{ tool: "pay" }] } : "It is paid.")).layer
  ),
  Layer.provide(FetchHttpClient.layer)
)

describe("FermataServer", () => {
  it.live("serves the runtimes of an Effect program to the client of another", () =>
    Effect.gen(function* () {
      const at = yield* FermataClient.FermataClient
      yield* at.submit({ _tag: "SubmitPrompt", prompt: "Pay the invoice." })
      const asked = yield* at.events().pipe(
        Stream.filter(({ event }) => event._tag === "tool.approvalRequired"),
        Stream.runHead
      )
      assert.strictEqual(asked._tag, "Some")
      const [item] = yield* at.inbox({ kind: "approval" })
      if (item === undefined) return assert.fail("The inbox is empty")
      const { requestId } = item.request
      yield* at.decide(requestId, { decision: { _tag: "approve" } })
      const again = yield* Effect.flip(at.decide(requestId, { decision: { _tag: "deny" } }))
      assert.strictEqual(again._tag, "AlreadyDecided")
      const text = yield* at.events().pipe(
        Stream.map(({ event }) => (event._tag === "task.completed" ? event.text : "")),
        Stream.filter((text) => text !== ""),
        Stream.runHead
      )
      assert.strictEqual(text._tag === "Some" && text.value, "It is paid.")
      const [run] = yield* at.runs({ status: "completed" })
      if (run === undefined) return assert.fail("There is no run")
      assert.strictEqual((yield* at.messages(run.runId)).length, 4)
      assert.strictEqual((yield* at.sessionMessages(run.sessionId)).length, 4)
      assert.strictEqual((yield* at.sessions()).length, 1)
      const fork = yield* at.fork(run.runId, { prompt: "Pay another one." })
      assert.strictEqual((yield* at.run(fork)).parent?.runId, run.runId)
      yield* at.send(fork, { prompt: "By noon." }).pipe(Effect.ignore)
      yield* at.cancel(fork, "It is not due.")
      assert.strictEqual((yield* Effect.flip(at.fork("run_no", { prompt: "Hi" })))._tag, "RunNotFound")
      const unknown = yield* Effect.flip(at.fork(run.runId, { prompt: "Hi", agent: "cleric" }))
      assert.strictEqual(unknown._tag, "RequestRefused")
    }).pipe(Effect.provide(client))
  )

  it.live("fails with a typed error if its port is taken or an option is unsafe", () =>
    Effect.gen(function* () {
      const runtime = yield* Runtime.make({ agent: Agent.make("clerk") })
      const { url } = yield* FermataServer.make({ agents: [runtime] })
      const port = Number(new URL(url).port)
      const taken = yield* Effect.flip(FermataServer.make({ agents: [runtime], port }))
      assert.strictEqual(taken._tag, "ListenFailed")
      const unsafe = yield* Effect.flip(FermataServer.make({ agents: [runtime], host: "0.0.0.0" }))
      assert.strictEqual(unsafe._tag, "OptionsInvalid")
    }).pipe(
      Effect.scoped,
      Effect.provide(Layer.merge(SqliteStore.layer({ filename: ":memory:" }), ScriptedModel.make([]).layer))
    )
  )
})
