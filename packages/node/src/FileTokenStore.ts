/**
 * Keeps the tokens of a login in a file that only its owner can read.
 *
 * The file is replaced as a whole, so that a reader or a crash never meets half of it. Processes that use the same file take
 * turns by a lock on a second file beside it, which the operating system lets go of when its holder dies, however it dies.
 *
 * @since 0.1.0
 */
import { mkdir, open, readFile, rename, rm } from "node:fs/promises"
import { dirname } from "node:path"
import { DatabaseSync } from "node:sqlite"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { ModelError } from "@fermata/sdk"
import type { LoginTokens } from "@fermata/sdk/model"

/** What is in the file. Fields that are not known are left alone by readers and lost by the next writer. */
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
 * The store in this file. Its directory is created where it is missing.
 *
 * **Errors**
 *
 * What it fails with are `ModelError`s with the reason `NotAuthorized`: the file cannot be read or written, is not one of this
 * store, or another process has held the lock for a minute.
 *
 * @category constructors
 * @since 0.1.0
 */
export const make = (filename: string): LoginTokens.TokenStore => ({
  read: Effect.flatMap(
    io("read", () => readFile(filename, "utf8").catch(ifMissing)),
    (text) =>
      text === undefined
        ? Effect.undefined
        : Effect.mapError(decode(text), () =>
            failure("The file with the login does not hold one: move it away and log in again.")
          )
  ),
  write: (tokens) => io("written", () => replace(filename, `${JSON.stringify(tokens, null, 2)}\n`)),
  locked: (effect) =>
    Effect.acquireUseRelease(
      lock(`${filename}.lock`),
      () => effect,
      (held) => Effect.sync(() => held.close())
    )
})

const failure = (description: string): ModelError.ModelError =>
  new ModelError.ModelError({ reason: new ModelError.NotAuthorized({ description }) })

const io = <A>(
  what: "read" | "written" | "locked",
  work: () => Promise<A>
): Effect.Effect<A, ModelError.ModelError> =>
  Effect.tryPromise({
    try: work,
    catch: (cause) =>
      failure(
        `The file with the login cannot be ${what} (${codeOf(cause)}): see to its place and its permissions.`
      )
  })

const codeOf = (cause: unknown): string =>
  cause instanceof Error && "code" in cause && typeof cause.code === "string" ? cause.code : "unknown error"

const ifMissing = (cause: unknown): undefined => {
  if (codeOf(cause) === "ENOENT") return undefined
  throw cause
}

/** Writes a new file, makes sure that it is on the disk, and puts it in the place of the old one. */
const replace = async (filename: string, text: string): Promise<void> => {
  await mkdir(dirname(filename), { recursive: true, mode: 0o700 })
  const temporary = `${filename}.${process.pid}.${crypto.randomUUID()}`
  try {
    const file = await open(temporary, "wx", 0o600)
    try {
      await file.writeFile(text)
      await file.sync()
    } finally {
      await file.close()
    }
    await rename(temporary, filename)
  } catch (cause) {
    await rm(temporary, { force: true })
    throw cause
  }
}

/** How often a lock that somebody holds is tried again, and for how long. */
const pause = "20 millis"
const longest = 60_000

/** SQLite locks a file the way each system does it; there is nothing in this one. Only the waiting can be interrupted. */
const lock = (filename: string): Effect.Effect<DatabaseSync, ModelError.ModelError> => {
  const attempt = (until: number): Effect.Effect<DatabaseSync, ModelError.ModelError> =>
    Effect.flatMap(
      Effect.sync(() => tryLock(filename)),
      (held) => {
        if (held === undefined)
          return Effect.fail(failure("The lock beside the file with the login cannot be used."))
        if (held !== "busy") return Effect.succeed(held)
        if (performance.now() > until) {
          return Effect.fail(failure("Another process has been renewing the login for a minute: try again."))
        }
        return Effect.andThen(Effect.interruptible(Effect.sleep(pause)), attempt(until))
      }
    )
  return Effect.uninterruptible(
    Effect.andThen(
      io("locked", () => createPrivate(filename)),
      Effect.suspend(() => attempt(performance.now() + longest))
    )
  )
}

/** An open database is the lock; closing it lets go. */
const tryLock = (filename: string): DatabaseSync | "busy" | undefined => {
  let database: DatabaseSync | undefined
  try {
    database = new DatabaseSync(filename, { timeout: 0 })
    database.exec("BEGIN EXCLUSIVE")
    return database
  } catch (cause) {
    database?.close()
    return isBusy(cause) ? "busy" : undefined
  }
}

const createPrivate = async (filename: string): Promise<void> => {
  await mkdir(dirname(filename), { recursive: true, mode: 0o700 })
  await (await open(filename, "a", 0o600)).close()
}

const isBusy = (cause: unknown): boolean =>
  cause instanceof Error && "errcode" in cause && (cause.errcode === 5 || cause.errcode === 6)
