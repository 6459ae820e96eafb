/**
 * Copies a stored run as one JSON value: as evidence, for inspection elsewhere, or to move it to another store.
 *
 * An archive contains a run and the runs that it builds on, each with its journal and its mail: the decisions, the messages and the
 * cancellation request that the journal does not contain yet. It also lists the grants of these runs that were revoked. The runs can be
 * folded and continued without the store that they came from. A held run that a fork builds on is copied with the fork, and is held in the
 * other store, too.
 *
 * An archive is a copy. If the original can still be resumed, the run exists twice after an import: both the original and the copy run the
 * calls that are left. To move runs, remove the originals before you resume the copies: the fork first, then the run that it builds on.
 *
 * An archive contains decisions, so a program that can write archives can write approvals. Trust an archive as much as the database. An
 * import checks that the archive is consistent, not where it comes from.
 *
 * @since 0.1.0
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import type { RunId } from "../domain/Id.ts"
import type { SessionBusy } from "../domain/RunError.ts"
import { RunStore } from "../store/RunStore.ts"
import type { RunExists, RunNotFound, RunStoreError } from "../store/RunStoreError.ts"
import { type ArchiveTooLarge, contentsOf, storeArchived } from "./internal/archivedContents.ts"
import { archiveOf } from "./internal/archiveOf.ts"
import { type ArchiveInvalid, checkArchive, type RunArchive } from "./internal/checkArchive.ts"
import { restoreArchive } from "./internal/restoreArchive.ts"

export { ArchiveTooLarge } from "./internal/archivedContents.ts"
export { ArchiveInvalid, RunArchive } from "./internal/checkArchive.ts"

/**
 * Returns a copy of a run and of the runs that it builds on, with their mail and their revoked grants. The content is as the store has it:
 * secrets were removed before it was written. A running run can be exported for inspection; its archive cannot be imported. The id of a
 * sub-agent's run is not accepted.
 *
 * **Errors**
 *
 * - `ArchiveTooLarge` — the files of the runs have more than 64 MiB: use `exportRunLines`.
 * - `RunNotFound` — check the id.
 * - `RunStoreError` — the store failed, or the journal of the run is damaged; see its `reason`.
 *
 * @category running
 * @since 0.1.0
 */
export const exportRun: (
  runId: string
) => Effect.Effect<RunArchive, ArchiveTooLarge | RunNotFound | RunStoreError, RunStore> = Effect.fn(
  "fermata.exportRun"
)(function* (given: string) {
  const runId = given as RunId
  const store = yield* RunStore
  const archive = yield* archiveOf(store, runId)
  const contents = yield* contentsOf(store, archive)
  return contents.length === 0 ? archive : { ...archive, contents }
})

/**
 * Stores the runs of an archive, and returns the id of the last one.
 *
 * **Details**
 *
 * A run that the store already has does not change if a process has claimed it in this store. A copy that no process has claimed is
 * replaced if the archive has more of the run, and keeps the decisions and messages that this store acknowledged. A second import of the
 * same archive changes nothing. A run that was running when its fork was exported is copied up to the revision that the fork builds on, and
 * is cancelled in the copy; an import of its own archive replaces that copy. Archives of runs that build on each other can therefore be
 * imported in any order.
 *
 * The revocations in an archive are stored even if its runs are refused with `RunExists` or `SessionBusy`, because a revocation only
 * restricts. `revoked` in the error lists the grants of stored runs that the archive lists as revoked and that are revoked in this store
 * now. An archive of a different run with the same id revokes nothing.
 *
 * **Errors**
 *
 * - `ArchiveInvalid` — the value is not an archive; or it is inconsistent (events are missing or cannot follow from each other, a decision
 *   answers no request of the run, does not fit it, or is an expiry that has not come); or it has an impossible value, such as a time
 *   before 1970 or a digest of other arguments; or its last run was running; or a call of it has the token of another call of the store.
 *   Nothing was written.
 * - `RunExists` — the store has the run, and the archive does not replace it, or has a different run with the id; `archive` says which.
 * - `SessionBusy` — another run has the position in the session.
 * - `RunStoreError` — the store failed, or has damaged data of one of the runs; see its `reason`.
 *
 * @category running
 * @since 0.1.0
 */
export const importRun: (
  given: unknown
) => Effect.Effect<RunId, ArchiveInvalid | RunExists | SessionBusy | RunStoreError, RunStore> = Effect.fn(
  "fermata.importRun"
)(function* (given: unknown) {
  const at = yield* Clock.currentTimeMillis
  const archive = yield* checkArchive(given, at)
  const store = yield* RunStore
  return yield* restoreArchive(archive, at, (needed) => storeArchived(store, archive.contents ?? [], needed))
})
