import { join } from "node:path"
import { assert, describe, it } from "@effect/vitest"
import { ReplayServer } from "@fermata/node/testing"
import { AnthropicMessages, ModelClient, OpenAiChat, OpenAiResponses } from "@fermata/sdk/model"
import * as Effect from "effect/Effect"
import * as FetchHttpClient from "effect/http/FetchHttpClient"
import { assertExpected, failsInside, type Fixture, fixtures } from "../../../sdk/test/model/Fixtures.ts"
import { ask } from "./asking.ts"

const folder = join(import.meta.dirname, "../../../sdk/test/fixtures/models")

const services = { chat: OpenAiChat, responses: OpenAiResponses, messages: AnthropicMessages }

/** What a client returns for a recording that it reads over a real socket. */
const replayed = (
  protocol: keyof typeof services,
  name: string,
  chunking: ReplayServer.Response["chunking"]
) =>
  Effect.gen(function* () {
    const response = yield* Effect.promise(() =>
      ReplayServer.recorded(join(folder, protocol, name), chunking === undefined ? {} : { chunking })
    )
    const server = yield* ReplayServer.make(() => response)
    const client = yield* services[protocol].make({
      model: "m",
      baseUrl: `${server.url}/v1`,
      apiKey: "key",
      retry: { times: 0 }
    })
    return {
      streamed: yield* Effect.result(ModelClient.collect(client.stream(ask()))),
      whole: yield* Effect.result(client.complete(ask()))
    }
  }).pipe(Effect.provide(FetchHttpClient.layer))

/** A recording whose answer was not ready: an error for a client that does not poll. */
const isUnfinished = ({ expected }: Fixture) => expected.finish === "pending"

let count = 0

for (const protocol of ["chat", "responses", "messages"] as const) {
  describe(`A recorded answer over a socket (${protocol})`, () => {
    for (const fixture of fixtures(protocol)) {
      count += 1
      const random = { seed: count, longest: 300 }
      it.live(
        `${fixture.name} gives its expected turn or an error, streamed or whole, for any chunking`,
        () =>
          Effect.gen(function* () {
            for (const chunking of [undefined, random] as const) {
              const { streamed, whole } = yield* replayed(protocol, fixture.name, chunking)
              for (const result of [streamed, whole]) {
                if (fixture.status !== 200 || failsInside(fixture) || isUnfinished(fixture)) {
                  if (result._tag === "Success") return assert.fail("an error was taken for an answer")
                  assert.isAbove(result.failure.reason.description.length, 0)
                  assert.isAtMost(result.failure.reason.description.length, 500)
                } else {
                  if (result._tag === "Failure") return assert.fail(result.failure.message)
                  assertExpected(fixture, result.success)
                }
              }
            }
          })
      )
    }
  })
}
