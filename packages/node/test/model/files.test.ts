import { assert, describe, it } from "@effect/vitest"
import { Agent, Runtime } from "@fermata/sdk"
import { Message } from "@fermata/sdk/domain"
import { runPromptStored } from "@fermata/sdk/durable"
import { ModelClient } from "@fermata/sdk/model"
import { RunStore } from "@fermata/sdk/store"
import * as Effect from "effect/Effect"
import { streamed } from "./asking.ts"
import { ends, protocols, say, served } from "./serving.ts"

const image = Buffer.from(Uint8Array.from({ length: 5000 }, (_, at) => (at * 31) % 251)).toString("base64")

describe("a file of a stored run", () => {
  for (const protocol of protocols) {
    it.effect(`is sent with its bytes (${protocol})`, () =>
      Effect.gen(function* () {
        const { client, server } = yield* served(protocol, [
          streamed(say(protocol, "A cat.") + ends[protocol])
        ])
        const runtime = yield* Effect.provideService(
          Runtime.make({ agent: Agent.make("eye") }),
          ModelClient.ModelClient,
          client
        )
        const { state, status } = yield* runPromptStored(runtime, {
          prompt: [
            Message.text("What is it?"),
            { _tag: "file", mediaType: "image/png", source: { _tag: "bytes", base64: image } }
          ]
        })
        assert.strictEqual(status, "completed")
        assert.notInclude(JSON.stringify(state), image)
        assert.include(server.requests[0]?.body, image)
      }).pipe(Effect.provide(RunStore.layerMemory))
    )
  }
})
