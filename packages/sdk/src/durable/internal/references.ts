/**
 * The contents to which a run refers.
 */
import * as Effect from "effect/Effect"
import type { BlobRef } from "../../domain/Blob.ts"
import type { RunId } from "../../domain/Id.ts"
import type { BlobPort } from "../../store/BlobPort.ts"
import type { RunStore } from "../../store/RunStore.ts"
import type { RunHead } from "../../store/RunStorePort.ts"

/** The contents that a run and the runs that it builds on refer to. */
export const referencesOf = Effect.fnUntraced(function* (
  store: RunStore["Service"],
  blobs: BlobPort,
  runId: RunId
) {
  const found: Array<BlobRef> = []
  for (let at: RunId | undefined = runId; at !== undefined;) {
    for (const { ref } of yield* blobs.uses([at])) found.push(ref)
    // A run that was removed meanwhile has no contents.
    const head: RunHead | undefined = yield* Effect.catchTag(store.head(at), "RunNotFound", () =>
      Effect.succeed(undefined)
    )
    at = head?.parent?.runId
  }
  return found
})
