/**
 * The operations of a guard as effects.
 *
 * @since 0.2.0
 */
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import * as FileAccess from "./fileAccess.ts"
import type { Context, Request } from "./located.ts"
import { FileError, failureOf, PathDenied } from "./pathErrors.ts"
import type { Access } from "./pathRules.ts"

/** The decision about an access. */
export type Judgement =
  /**
   * `place` is the path without symbolic links; `undefined` if the rules allow the path and the file system does not, for example because a
   * directory is missing.
   */
  | { readonly decision: "allow"; readonly place: string | undefined }
  | { readonly decision: "ask" | "deny"; readonly denial: PathDenied }

/** Options of every operation. */
export interface AccessOptions {
  /**
   * Whether a person has approved this access: the operation is then done if the rules ask about it, and still refused if they deny it.
   * Default: `false`.
   */
  readonly approved?: boolean
}

/** A file that is open for reading. */
export interface OpenFile {
  readonly info: FileAccess.FileInfo
  /** Reads at most this many bytes from an offset; fewer at the end of the file. */
  readonly read: (offset: number, length: number) => Effect.Effect<Uint8Array, FileError>
}

/** The names in a directory. */
export interface Listing {
  /** In the order of their code units. */
  readonly entries: ReadonlyArray<{ readonly name: string; readonly type: FileAccess.FileType }>
  /** Whether these are all. */
  readonly isComplete: boolean
}

/** The errors of an operation. */
export type AccessError = PathDenied | FileError

/**
 * Guarded access to the files of this machine.
 *
 * @category models
 * @since 0.2.0
 */
export interface PathGuard {
  /** Returns the decision about an access without doing it. The operation decides again. */
  readonly judge: (path: string, access: Access) => Effect.Effect<Judgement>
  /** Opens a regular file for reading until the scope ends. */
  readonly openRead: (
    path: string,
    options?: AccessOptions
  ) => Effect.Effect<OpenFile, AccessError, Scope.Scope>
  /** Reads a file of at most `maxBytes` bytes. Default: `maxBytes` of the rules. */
  readonly readFile: (
    path: string,
    options?: AccessOptions & { readonly maxBytes?: number }
  ) => Effect.Effect<Uint8Array, AccessError>
  /**
   * Writes a file: a new one takes its name when it is whole. Its permissions stay; those of a new one are the default. Missing directories
   * are created. With `mustBeNew`, a file that exists is an error.
   */
  readonly writeFile: (
    path: string,
    content: string | Uint8Array,
    options?: AccessOptions & { readonly mustBeNew?: boolean }
  ) => Effect.Effect<void, AccessError>
  /** Creates a directory, and those above it. */
  readonly makeDirectory: (path: string, options?: AccessOptions) => Effect.Effect<void, AccessError>
  /** The names in a directory, at most `maxEntries` (10,000 by default). Links are listed, and not followed. */
  readonly list: (
    path: string,
    options?: AccessOptions & { readonly maxEntries?: number }
  ) => Effect.Effect<Listing, AccessError>
  /**
   * Returns the type, the size, the time of the last change and the permissions of a file, also of one that is not opened, such as a pipe.
   */
  readonly stat: (path: string, options?: AccessOptions) => Effect.Effect<FileAccess.FileInfo, AccessError>
  /** Removes a file, a link or an empty directory; with `recursive`, a directory with all that it has. */
  readonly remove: (
    path: string,
    options?: AccessOptions & { readonly recursive?: boolean }
  ) => Effect.Effect<void, AccessError>
  /** Renames a file or a directory. Without `mayReplace`, a name that exists is an error. */
  readonly rename: (
    from: string,
    to: string,
    options?: AccessOptions & { readonly mayReplace?: boolean }
  ) => Effect.Effect<void, AccessError>
}

/** Makes a guard. It uses open directories where the system shows where they are (`byDescriptor`), and paths elsewhere. */
export const guardOf = (context: Context): PathGuard => ({
  judge: (path, access) =>
    Effect.match(
      attempt(path, () => FileAccess.allowedPlace(context, requestOf(path, access))),
      {
        onSuccess: (place) => ({ decision: "allow", place }),
        onFailure: (error): Judgement =>
          error instanceof PathDenied
            ? { decision: error.isApprovable ? "ask" : "deny", denial: error }
            : { decision: "allow", place: undefined }
      }
    ),
  openRead: (path, options) =>
    Effect.map(
      Effect.acquireRelease(
        attempt(path, () => FileAccess.openFile(context, requestOf(path, "read", options))),
        ({ handle }) => Effect.promise(() => handle.close())
      ),
      ({ handle, info }) => ({
        info,
        read: (offset, length) => attemptFile(path, () => FileAccess.readAt(handle, offset, length))
      })
    ),
  readFile: (path, options) =>
    attempt(path, () =>
      FileAccess.readWhole(
        context,
        requestOf(path, "read", options),
        options?.maxBytes ?? context.rules.maxBytes
      )
    ),
  writeFile: (path, content, options) =>
    attempt(path, () =>
      FileAccess.replace(
        context,
        requestOf(path, "write", options),
        typeof content === "string" ? new TextEncoder().encode(content) : content,
        { mustBeNew: options?.mustBeNew ?? false }
      )
    ),
  makeDirectory: (path, options) =>
    attempt(path, () => FileAccess.makeDirectory(context, requestOf(path, "write", options))),
  list: (path, options) =>
    attempt(path, () =>
      FileAccess.names(context, requestOf(path, "read", options), options?.maxEntries ?? 10_000)
    ),
  stat: (path, options) => attempt(path, () => FileAccess.info(context, requestOf(path, "read", options))),
  remove: (path, options) =>
    attempt(path, () =>
      FileAccess.remove(context, requestOf(path, "write", options), options?.recursive ?? false)
    ),
  rename: (from, to, options) =>
    attempt(from, () =>
      FileAccess.move(
        context,
        requestOf(from, "write", options),
        requestOf(to, "write", options),
        options?.mayReplace ?? false
      )
    )
})

const requestOf = (given: string, access: Access, options?: AccessOptions): Request => ({
  given,
  access,
  approved: options?.approved === true
})

/** Runs an operation to its end, so that an interruption never leaves it half done. */
const attempt = <A>(path: string, operation: () => Promise<A>): Effect.Effect<A, AccessError> =>
  Effect.uninterruptible(Effect.tryPromise({ try: operation, catch: (cause) => failureOf(path, cause) }))

const attemptFile = <A>(path: string, operation: () => Promise<A>): Effect.Effect<A, FileError> =>
  Effect.catchTag(attempt(path, operation), "PathDenied", () =>
    Effect.fail(new FileError({ path, reason: "failed" }))
  )
