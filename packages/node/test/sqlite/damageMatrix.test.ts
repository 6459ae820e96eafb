import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { stepOf } from "../../../../scripts/internal/effort.ts"
import { temporaryFile } from "../temporaryStore.ts"
import { casesOf, sampleOf } from "./damage/cases.ts"
import { write } from "./damage/story.ts"
import { complaintsOf, reference } from "./damage/trial.ts"

/** Every fourth column; `npm run crash -- --part damage` has all columns, and many rows and values of each. */
const isHere = (_: unknown, index: number) => index % stepOf(4) === 0

describe("a store in which any one row is damaged", () => {
  it.effect(
    "fails only that row's run, with a typed error, ends every operation, and runs no unapproved body",
    () =>
      Effect.gen(function* () {
        const filename = yield* temporaryFile
        yield* Effect.promise(async () => {
          const undamaged = await reference(filename, await write(filename))
          const wrong: Array<string> = []
          for (const damage of sampleOf(casesOf(filename), { perColumn: 1, seed: 1 }).filter(isHere)) {
            for (const complaint of await complaintsOf(undamaged, damage)) {
              wrong.push(`${damage.name}: ${complaint}`)
            }
          }
          assert.deepStrictEqual(wrong, [])
        })
      }),
    300_000
  )
})
