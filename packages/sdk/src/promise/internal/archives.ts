/**
 * `exportRunLines` and `importRunLines` of a Fermata.
 */
import type * as Context from "effect/Context"
import type * as Effect from "effect/Effect"
import * as Stream from "effect/Stream"
import type { RunId } from "../../domain/Id.ts"
import { exportRunLines, importRunLines } from "../../durable/archiveLines.ts"
import { RunStore } from "../../store/RunStore.ts"

/** Makes the methods `exportRunLines` and `importRunLines`. */
export const makeArchives = ({
  context,
  run,
  store
}: {
  readonly context: Context.Context<never>
  readonly run: <A, E>(effect: Effect.Effect<A, E, RunStore>) => Promise<A>
  readonly store: RunStore["Service"]
}) => ({
  exportRunLines: (runId: string): AsyncIterable<string> =>
    Stream.toAsyncIterableWith(Stream.provideService(exportRunLines(runId), RunStore, store), context),
  importRunLines: (text: AsyncIterable<string | Uint8Array>): Promise<RunId> => {
    const decoder = new TextDecoder()
    return run(
      importRunLines(
        Stream.map(
          Stream.fromAsyncIterable(text, (cause) => cause),
          (piece) => (typeof piece === "string" ? piece : decoder.decode(piece, { stream: true }))
        )
      )
    )
  }
})
