/**
 * What a Fermata says that was closed.
 */
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import { RunStoreError } from "../../store/RunStoreError.ts"

/** It was closed. Make another one; the runs are in the store. */
export class FermataClosed extends Schema.TaggedError<FermataClosed>()("FermataClosed", {}) {
  override get message() {
    return "This Fermata was closed: make another one. Its runs are in the store."
  }
}

/** The same stream, which says that its Fermata was closed where the store is gone with it. */
export const whileOpen = <A>(
  stream: Stream.Stream<A, unknown>,
  isClosed: () => boolean
): Stream.Stream<A, unknown> =>
  Stream.mapError(stream, (error) =>
    error instanceof RunStoreError && isClosed() ? new FermataClosed() : error
  )
