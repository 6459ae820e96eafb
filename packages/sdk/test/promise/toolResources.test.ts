/**
 * The resources of the tools of a Fermata's agents.
 */
import { assert, describe, it } from "@effect/vitest"
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Logger from "effect/Logger"
import { holdTools } from "../../src/promise/internal/toolResources.ts"
import * as Scrubber from "../../src/tool/Scrubber.ts"
import * as Tool from "../../src/tool/Tool.ts"
import * as ToolResource from "../../src/tool/ToolResource.ts"

describe("the resource of a tool that cannot be closed", () => {
  it.effect("is named in the log, without the secrets of the error", () =>
    Effect.gen(function* () {
      const secret = "canary-5e55a1b2c3d4"
      const logs: Array<string> = []
      const logger = Logger.make(
        ({ cause, message }) => void logs.push(`${String(message)} ${Cause.pretty(cause)}`)
      )
      const query = Tool.make("query", { handler: () => "three rows" })
      ToolResource.attach([query], () => Promise.reject(new Error("refused", { cause: new Error(secret) })))
      yield* Effect.scoped(holdTools("analyst", [query])).pipe(
        Effect.provideService(Scrubber.Scrubber, Scrubber.make({ secrets: [secret] })),
        Effect.provide(Logger.layer([logger]))
      )
      assert.include(logs.join(), 'The resource of the tool "query" could not be closed.')
      assert.include(logs.join(), "refused")
      assert.include(logs.join(), "[REDACTED:secret]")
      assert.notInclude(logs.join(), secret)
    })
  )
})
