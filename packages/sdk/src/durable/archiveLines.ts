/**
 * Archives in lines of JSON, for runs with files of any size: neither an export nor an import has a whole file in memory.
 *
 * The first line has the archive without its contents. The following lines have the contents, in pieces of at most 256 KiB, one content
 * after another, and the last line their number, so that an archive which was cut is refused.
 *
 * @since 0.2.0
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Base64 from "effect/encoding/Base64"
import * as Pull from "effect/Pull"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import { Sha256 } from "../domain/Blob.ts"
import type { RunId } from "../domain/Id.ts"
import { makeHasher } from "../domain/internal/sha256.ts"
import type { SessionBusy } from "../domain/RunError.ts"
import { RunStore } from "../store/RunStore.ts"
import type { RunExists, RunNotFound, RunStoreError } from "../store/RunStoreError.ts"
import { notItself, referencesIn } from "./internal/archivedContents.ts"
import { archiveOf } from "./internal/archiveOf.ts"
import { type ArchiveInvalid, checkArchive, invalid } from "./internal/checkArchive.ts"
import { restoreArchive } from "./internal/restoreArchive.ts"

/** The lines after the first one. */
const Line = Schema.Union([
  Schema.Struct({ sha256: Sha256, base64: Schema.String }),
  /** The last line: the number of contents before it. */
  Schema.Struct({ contents: Schema.Natural })
])
type Line = typeof Line.Type
type Piece = Extract<Line, { readonly sha256: Sha256 }>

/**
 * Returns the archive of a run as a stream of lines, each with its line feed; see `exportRun`.
 *
 * **Errors**
 *
 * - `RunNotFound` — check the id.
 * - `RunStoreError` — the store failed, or the run or a file of it is damaged; see its `reason`. The lines before the failure are not an
 *   archive.
 *
 * @category running
 * @since 0.2.0
 */
export const exportRunLines = (runId: string): Stream.Stream<string, RunNotFound | RunStoreError, RunStore> =>
  Stream.unwrap(
    Effect.gen(function* () {
      const store = yield* RunStore
      const archive = yield* archiveOf(store, runId as RunId)
      const refs = yield* referencesIn(store, archive)
      const pieces = Stream.flatMap(Stream.fromIterable(refs), ({ bytes, sha256 }) =>
        // A content without bytes has one piece, too.
        bytes === 0
          ? Stream.make<[Line]>({ sha256, base64: "" })
          : Stream.map(store.blobs!.read(sha256), (piece): Line => ({ sha256, base64: Base64.encode(piece) }))
      )
      const last: Line = { contents: refs.length }
      return Stream.map(
        Stream.concat(Stream.concat(Stream.make<[object]>(archive), pieces), Stream.make(last)),
        (line) => `${JSON.stringify(line)}\n`
      )
    })
  )

/**
 * Stores the runs of an archive in lines, which may arrive in pieces of any length, and returns the id of the last run; see `importRun`.
 *
 * **Errors**
 *
 * - `ArchiveInvalid` — the lines are not an archive, or it was cut, or is inconsistent, or a content has another SHA-256. No run was stored.
 * - `RunExists`, `SessionBusy`, `RunStoreError` — as in `importRun`.
 *
 * @category running
 * @since 0.2.0
 */
export const importRunLines: <E = never>(
  text: Stream.Stream<string, E>
) => Effect.Effect<RunId, E | ArchiveInvalid | RunExists | SessionBusy | RunStoreError, RunStore> = Effect.fn(
  "fermata.importRunLines"
)(function* <E>(text: Stream.Stream<string, E>) {
  const at = yield* Clock.currentTimeMillis
  const { blobs } = yield* RunStore
  const next = yield* reader(text)
  const archive = yield* checkArchive(yield* parsed(yield* next), at)
  const nextLine = Effect.flatMap(next, lineOf)
  return yield* restoreArchive(archive, at, (needed) =>
    Effect.gen(function* () {
      let line = yield* nextLine
      let count = 0
      while ("sha256" in line) {
        const { sha256 } = line
        const pieces = Stream.unfold(line as Piece | undefined, (piece) =>
          Effect.gen(function* () {
            if (piece === undefined) return undefined
            const bytes = yield* bytesOf(piece)
            line = yield* nextLine
            return [bytes, "sha256" in line && line.sha256 === sha256 ? line : undefined] as const
          })
        )
        const found =
          blobs !== undefined && needed.has(sha256)
            ? (yield* blobs.put(pieces)).sha256
            : yield* digestOf(pieces)
        if (found !== sha256) return yield* notItself(sha256)
        count += 1
      }
      if (line.contents !== count)
        return yield* invalid(`it has ${count} contents where it says that there are ${line.contents}`)
    })
  )
}, Effect.scoped)

/** An effect that takes the next line; `undefined` at the end. */
const reader = Effect.fnUntraced(function* <E>(text: Stream.Stream<string, E>) {
  const pull = yield* Stream.toPull(Stream.filter(Stream.splitLines(text), (line) => line !== ""))
  let lines: ReadonlyArray<string> = []
  let at = 0
  return Effect.gen(function* () {
    if (at === lines.length) {
      lines = yield* Pull.catchDone(pull, () => Effect.succeed([]))
      at = 0
    }
    return lines[at++]
  })
})

const parsed = (line: string | undefined): Effect.Effect<unknown, ArchiveInvalid> =>
  line === undefined
    ? Effect.fail(invalid("it ends before its last line"))
    : Effect.try({ try: (): unknown => JSON.parse(line), catch: () => invalid("a line of it is not JSON") })

const decodeLine = Schema.decodeUnknownEffect(Line)

const lineOf = (line: string | undefined): Effect.Effect<Line, ArchiveInvalid> =>
  Effect.flatMap(parsed(line), (json) =>
    Effect.mapError(decodeLine(json), () => invalid("a line of it is no piece of a content"))
  )

const bytesOf = ({ base64, sha256 }: Piece): Effect.Effect<Uint8Array, ArchiveInvalid> =>
  Effect.mapError(Effect.fromResult(Base64.decode(base64)), () => notItself(sha256))

const digestOf = Effect.fnUntraced(function* <E>(pieces: Stream.Stream<Uint8Array, E>) {
  const hasher = makeHasher()
  yield* Stream.runForEach(pieces, (piece) => Effect.sync(() => hasher.update(piece)))
  return hasher.digest()
})
