import { assert, describe, it } from "@effect/vitest"
import { agent, createFermata } from "@fermata/node"
import { ScriptedModel } from "@fermata/sdk/testing"
import * as Effect from "effect/Effect"
import { emptySchema } from "./database.ts"

describe("createFermata with the URL of a Postgres database as its store", () => {
  it("keeps runs there, and another process finds them", async () => {
    const { url } = await Effect.runPromise(emptySchema)
    const options = { agents: [agent("ops")], model: ScriptedModel.make(() => "Done.").client, store: url }
    await using first = await createFermata(options)
    const { runId } = await first.runPrompt("ops", "go")
    await using second = await createFermata({ ...options, store: url.replace("postgres:", "PostgreSQL:") })
    assert.deepStrictEqual(
      (await second.runs()).map((run) => run.runId),
      [runId]
    )
  })
})
