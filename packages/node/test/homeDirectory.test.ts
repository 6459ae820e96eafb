import { homedir } from "node:os"
import { join } from "node:path"
import { assert, describe, it } from "@effect/vitest"
import { agent, createFermata, type CreateFermataOptions, tool } from "@fermata/node"
import { ScriptedModel } from "@fermata/node/testing"
import * as Effect from "effect/Effect"
import { temporaryFile } from "./temporaryStore.ts"

describe("the home directory", () => {
  it.live("is scrubbed from stored runs when the `scrubber` option is undefined", () =>
    Effect.gen(function* () {
      const store = yield* temporaryFile
      const look = tool("look", { safety: "readOnly", handler: () => join(homedir(), "keys.txt") })
      const { client } = ScriptedModel.make(({ turn }) =>
        turn === 1 ? { calls: [{ tool: "look" }] } : "It is there."
      )
      const options: CreateFermataOptions = {
        agents: [agent("reader", { tools: [look] })],
        model: client,
        store
      }
      // As an untyped program may pass it.
      Reflect.set(options, "scrubber", undefined)
      yield* Effect.promise(async () => {
        await using fermata = await createFermata(options)
        const { runId } = await fermata.runPrompt("reader", "Look")
        const stored = JSON.stringify(await fermata.state(runId))
        assert.include(stored, "~/keys.txt")
        assert.notInclude(stored, homedir())
      })
    })
  )
})
