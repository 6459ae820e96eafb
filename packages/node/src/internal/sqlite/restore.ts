/**
 * Makes a store from a backup.
 */
import { DatabaseSync } from "node:sqlite"
import { doubtLaterEffects, type Id } from "@fermata/sdk"
import { RunStore, type RunStoreError } from "@fermata/sdk/store"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import type { BackupExists } from "../BackupExists.ts"
import { copyInto, writeNew } from "./backup.ts"
import { removeFence } from "./fence.ts"
import { openExisting, patiently } from "./file.ts"
import { layer } from "./open.ts"

/** Copies a backup into a new store, in which later effects are in doubt. */
export const restore = (options: {
  readonly from: string
  readonly to: string
}): Effect.Effect<
  { readonly doubted: ReadonlyArray<Id.RunId>; readonly damaged: ReadonlyArray<RunStore.DamagedRun> },
  RunStoreError.RunStoreError | BackupExists
> =>
  Effect.scoped(
    writeNew(
      "restore",
      options.to,
      Effect.fnUntraced(function* (partial) {
        yield* Effect.scoped(
          Effect.flatMap(openExisting("restore", options.from), (source) =>
            copyInto("restore", source, options.from, partial)
          )
        )
        yield* patiently("restore", () => freshen(partial))
        return yield* marking.pipe(
          Effect.provide(Layer.fresh(layer({ filename: partial }))),
          // Only this process knows the name of the copy.
          Effect.catchTags({ RunBusy: Effect.die, RunConflict: Effect.die, LeaseLost: Effect.die })
        )
      })
    )
  ).pipe(Effect.uninterruptible)

/** Marks the runs, and finds the unreadable ones. */
const marking = Effect.gen(function* () {
  const doubted = yield* doubtLaterEffects
  const store = yield* RunStore.RunStore
  const damaged = [...(yield* store.damaged)]
  const known = new Set<string>([...doubted, ...damaged.map(({ runId }) => runId)])
  // The journal of a failed run is read here; the others are read when they continue.
  let page: ReadonlyArray<RunStore.RunHead> = []
  do {
    const after = page.at(-1)?.runId
    page = yield* store.list({ status: "error", limit: 1000, ...(after === undefined ? {} : { after }) })
    for (const { runId } of page) {
      if (known.has(runId)) continue
      const problem = yield* Effect.match(store.events(runId), {
        onFailure: ({ message }) => message,
        onSuccess: () => "It was not marked."
      })
      damaged.push({ runId, problem })
    }
  } while (page.length === 1000)
  return { doubted, damaged }
})

/** Ends the leases and removes the fence: their processes do not use the copy. */
const freshen = (filename: string): void => {
  const database = new DatabaseSync(filename)
  try {
    removeFence(database)
    const [runs] = database.prepare("SELECT 1 FROM sqlite_schema WHERE name = 'fermata_runs'").all()
    if (runs !== undefined) database.exec("UPDATE fermata_runs SET lease_until = 0 WHERE lease_until > 0")
  } finally {
    database.close()
  }
}
