/**
 * Reads and writes whole files of a place, with their digests.
 */
import { createHash } from "node:crypto"
import type { ToolError } from "@fermata/sdk"
import * as Effect from "effect/Effect"
import type * as FileSystem from "effect/FileSystem"
import * as Option from "effect/Option"
import { failureOf, isMissing } from "./places.ts"

type Failing<A> = Effect.Effect<A, ToolError.ToolFailure>

/** Reads a file; `undefined` if there is none. */
export const readIfThere = (files: FileSystem.FileSystem, path: string): Failing<Uint8Array | undefined> =>
  files.readFile(path).pipe(
    Effect.catchIf(isMissing, () => Effect.succeed(undefined)),
    Effect.mapError((error) => failureOf(path, error))
  )

/** Writes a file as a whole, with the directories that it needs. */
export const writeWhole = (files: FileSystem.FileSystem, path: string, content: Uint8Array): Failing<void> =>
  files.writeFile(path, content).pipe(
    // Only the files of another machine need the directory first.
    Effect.catchIf(isMissing, () =>
      Effect.andThen(files.makeDirectory(parentOf(path), { recursive: true }), files.writeFile(path, content))
    ),
    Effect.mapError((error) => failureOf(path, error))
  )

const parentOf = (path: string): string => {
  const cut = path.replace(/\/+$/, "").lastIndexOf("/")
  return cut === -1 ? "." : path.slice(0, Math.max(cut, 1))
}

/** When a file was last changed, in milliseconds; `undefined` if that is unknown. */
export const changedAt = (files: FileSystem.FileSystem, path: string): Failing<number | undefined> =>
  files.stat(path).pipe(
    Effect.map(({ mtime }) => Option.getOrUndefined(mtime)?.getTime()),
    Effect.mapError((error) => failureOf(path, error))
  )

/** The SHA-256 of a content, as it is shown in an approval request. */
export const digestOf = (content: Uint8Array | undefined): string =>
  content === undefined ? "no file" : `sha256:${createHash("sha256").update(content).digest("hex")}`

/** Whether two contents are equal. */
export const isSame = (one: Uint8Array | undefined, other: Uint8Array): boolean =>
  one !== undefined && Buffer.compare(one, other) === 0
