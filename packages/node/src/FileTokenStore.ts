/**
 * Keeps the tokens of a login in a file that only its owner can read (mode 600; Windows has no such modes).
 *
 * The file is replaced as a whole, so that no reader and no crash meets a partial file. A symbolic link stays one: the file that it
 * points to is replaced. Renewals of the tokens, in this process and in others, take turns by a lock on a second file beside it, which ends
 * in `.lock` and stays there. `read` and `write` take no lock by themselves. The operating system releases the lock when the process that
 * has it ends.
 *
 * @since 0.1.0
 */
import { lstat, mkdir, open, readFile, readlink, realpath, rename, rm } from "node:fs/promises"
import { basename, dirname, join, resolve } from "node:path"
import { ModelError } from "@fermata/sdk"
import type { LoginTokens } from "@fermata/sdk/model"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { acquireFileLock, type FileLock, type FileLockError } from "./internal/fileLock.ts"

/** The content of the file. Readers ignore unknown fields; the next writer drops them. */
const Stored = Schema.fromJsonString(
  Schema.Struct({
    accessToken: Schema.String,
    refreshToken: Schema.optionalKey(Schema.String),
    idToken: Schema.optionalKey(Schema.String),
    expiresAt: Schema.optionalKey(Schema.Finite)
  })
)
const decode = Schema.decodeUnknownEffect(Stored)

/**
 * Makes a token store in this file. A relative path is resolved now. `write` and `locked` create its directory if it is missing; `read`
 * returns `undefined` for a missing file.
 *
 * **Errors**
 *
 * Operations fail with a `ModelError` with the reason `NotAuthorized`: the file cannot be read or written, contains no tokens, or the lock
 * cannot be used or was not free for a minute.
 *
 * @category constructors
 * @since 0.1.0
 */
export const make = (filename: string): LoginTokens.TokenStore => {
  // A later change of the working directory must not lead to another file.
  const path = resolve(filename)
  return {
    read: Effect.flatMap(
      io("read", () => readFile(path, "utf8").catch(ifMissing)),
      (text) =>
        text === undefined
          ? Effect.undefined
          : Effect.mapError(decode(text), () =>
              failure("The file of the login holds no login: move it away and log in again.")
            )
    ),
    write: (tokens) => io("written", () => replace(path, `${JSON.stringify(tokens, null, 2)}\n`)),
    locked: (effect) =>
      Effect.acquireUseRelease(
        lock(path),
        () => effect,
        (fileLock) => Effect.sync(fileLock.unlock)
      )
  }
}

/** How long an operation waits for the lock, in milliseconds. */
const lockTimeoutMs = 60_000

/** Takes the lock beside the target of the path: a path and a symbolic link to it share one lock. */
const lock = (path: string): Effect.Effect<FileLock, ModelError.ModelError> =>
  Effect.flatMap(
    io("locked", () => targetOf(path)),
    (target) => Effect.mapError(acquireFileLock(`${target}.lock`, lockTimeoutMs), unlocked)
  )

const unlocked = ({ reason }: FileLockError): ModelError.ModelError =>
  failure(
    reason === "busy"
      ? "Another process has been renewing the login for a minute: try again."
      : "The lock beside the file of the login cannot be used: check its permissions, or remove it."
  )

const failure = (description: string): ModelError.ModelError =>
  new ModelError.ModelError({ reason: new ModelError.NotAuthorized({ description }) })

const io = <A>(
  what: "read" | "written" | "locked",
  work: () => Promise<A>
): Effect.Effect<A, ModelError.ModelError> =>
  Effect.tryPromise({
    try: work,
    catch: (cause) =>
      failure(`The file of the login cannot be ${what} (${codeOf(cause)}): check its path and permissions.`)
  })

const codeOf = (cause: unknown): string =>
  cause instanceof Error && "code" in cause && typeof cause.code === "string" ? cause.code : "unknown error"

const ifMissing = (cause: unknown): undefined => {
  if (codeOf(cause) === "ENOENT") return undefined
  throw cause
}

/** The most symbolic links to follow, as in Linux. */
const maxLinks = 40

/** The file to which a path leads, also when it does not exist yet. Creates its folder. */
const targetOf = async (path: string): Promise<string> => {
  let at = path
  for (let links = 0; links <= maxLinks; links++) {
    await mkdir(dirname(at), { recursive: true, mode: 0o700 })
    at = join(await realpath(dirname(at)), basename(at))
    const found = await lstat(at).catch(ifMissing)
    if (found?.isSymbolicLink() !== true) return at
    at = resolve(dirname(at), await readlink(at))
  }
  throw Object.assign(new Error("too many symbolic links"), { code: "ELOOP" })
}

/** Writes a new file beside the old one, flushes it to the disk, and renames it over the old one. */
const replace = async (path: string, text: string): Promise<void> => {
  const target = await targetOf(path)
  const temporary = `${target}.${process.pid}.${crypto.randomUUID()}`
  try {
    const file = await open(temporary, "wx", 0o600)
    try {
      await file.writeFile(text)
      await file.sync()
    } finally {
      await file.close()
    }
    await rename(temporary, target)
  } catch (cause) {
    await rm(temporary, { force: true })
    throw cause
  }
}
