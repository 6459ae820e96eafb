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

  it("refuses a store that is none with all that can be one", async () => {
    for (const store of ["mysql://localhost/runs", "redis://localhost", 5, null, true, {}, []]) {
      const { message, name } = await refusal({ ...options, store })
      assert.strictEqual(name, "OptionsInvalid")
      assert.include(
        message,
        '"store" of the options of createFermata takes the name of a SQLite file, ":memory:", the URL of a Postgres database, a layer with a RunStore, or false'
      )
    }
  })
})
