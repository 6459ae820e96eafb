import { assert, describe, it } from "@effect/vitest"
import { RunStore } from "@fermata/sdk/store"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as PostgresStore from "../../src/PostgresStore.ts"
import { oddIds } from "../oddIds.ts"
import { oddNumbers } from "../oddNumbers.ts"
import { reusedSchema } from "./database.ts"

const schema = reusedSchema()
const emptied = Layer.unwrap(Effect.map(Effect.orDie(schema), (url) => PostgresStore.layer({ url })))

oddIds("Postgres", emptied)
oddNumbers("Postgres", emptied)

describe("the options of a Postgres store", () => {
  it.effect("with invalid numbers or durations are refused before a connection is made", () =>
    Effect.gen(function* () {
      for (const options of [
        { busyDeadline: "soon" },
        { busyDeadline: Number.NaN },
        { connectTimeout: null },
        { maxConnections: Number.NaN },
        { maxConnections: 0 },
        { maxConnections: "10" }
      ]) {
        const layer = PostgresStore.layer({ url: "postgres://nowhere.invalid/none", ...(options as object) })
        const error = yield* Effect.flip(Effect.provide(Effect.asVoid(RunStore.RunStore), layer))
        assert.strictEqual(error.reason._tag, "CannotOpen")
        assert.include(error.message, `its \`${Object.keys(options)[0]}\``)
      }
    })
  )
})
