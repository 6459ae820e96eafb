import { assert, describe, it } from "@effect/vitest"
import { agent, createFermata } from "@fermata/node"
import { ScriptedModel } from "@fermata/sdk/testing"

const options = { agents: [agent("ops")], model: ScriptedModel.make([]).client }

const refusal = (given: unknown): Promise<Error> =>
  createFermata(given as never).then(
    () => assert.fail("taken"),
    (error: Error) => error
  )

describe("createFermata", () => {
  it("refuses options that are no object, by their kind", async () => {
    assert.include(
      (await refusal("fermata.db")).message,
      "a string was given as the options of createFermata"
    )
    assert.include((await refusal(undefined)).message, "null was given as the options of createFermata")
  })

  it("refuses a store at a URL of another database", async () => {
    const { message } = await refusal({ ...options, store: "mysql://localhost/runs" })
    assert.include(message, "this is a URI. Give the name of a file, or `:memory:`")
  })
})
