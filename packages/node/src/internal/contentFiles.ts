/**
 * A directory in which a store keeps contents, one file each. A file is named after the number of its content, and is in a folder named
 * after its first two digits. The file `store` has the id of the store.
 */
import { mkdir, open, readdir, readFile, rm, stat, writeFile } from "node:fs/promises"
import { dirname, join, resolve } from "node:path"
import { type BlobPort, RunStoreError, type SqlRunStore } from "@fermata/sdk/store"
import * as Effect from "effect/Effect"
import { codeOf, nameIfFree } from "./newFile.ts"

/** The file of a content. */
export const fileOf = (directory: string, file: number): string => {
  const name = nameOf(file)
  return join(directory, name.slice(0, 2), name)
}

const nameOf = (file: number): string => file.toString(16).padStart(12, "0")

/** The names of the files of contents in a directory. */
export const filesIn = async (directory: string): Promise<ReadonlyArray<string>> => {
  const names: Array<string> = []
  for (const folder of await readdir(directory)) {
    if (/^[0-9a-f]{2}$/.test(folder)) names.push(...(await readdir(join(directory, folder))))
  }
  return names
}

/** Opens the directory of a store. An empty directory becomes that of the store. */
export const openDirectory =
  (path: string) =>
  (store: SqlRunStore.FiledStore): Effect.Effect<BlobPort.BlobFiles, RunStoreError.RunStoreError> => {
    // The program may change its working directory later.
    const directory = resolve(path)
    return Effect.as(identify(directory, store), {
      write: (file, position, bytes) =>
        attempt("blobs.put", async () => {
          const path = fileOf(directory, file)
          if (position === 0) await mkdir(dirname(path), { recursive: true })
          const handle = await open(path, position === 0 ? "wx" : "r+", 0o600)
          try {
            for (let at = 0; at < bytes.length;)
              at += (await handle.write(bytes, at, bytes.length - at, position + at)).bytesWritten
          } finally {
            await handle.close()
          }
        }),
      sync: (file) =>
        attempt("blobs.put", async () => {
          const path = fileOf(directory, file)
          for (const one of [path, dirname(path), directory]) await synced(one)
        }),
      read: (file, position, length) =>
        attempt("blobs.read", () => readPart(fileOf(directory, file), position, length)),
      remove: (file) => attempt("blobs.sweep", () => rm(fileOf(directory, file), { force: true }))
    })
  }

/** Reads a part of a file; `undefined` if there is no such part. */
export const readPart = async (
  path: string,
  position: number,
  length: number
): Promise<Uint8Array | undefined> => {
  const handle = await open(path).catch((error: unknown) => {
    if (codeOf(error) === "ENOENT") return undefined
    throw error
  })
  if (handle === undefined) return undefined
  try {
    const bytes = new Uint8Array(length)
    let at = 0
    while (at < length) {
      const { bytesRead } = await handle.read(bytes, at, length - at, position + at)
      if (bytesRead === 0) return undefined
      at += bytesRead
    }
    return bytes
  } finally {
    await handle.close()
  }
}

/** Waits until a file, or the names in a folder, are on the disk. */
const synced = async (path: string): Promise<void> => {
  const handle = await open(path)
  try {
    await handle.sync()
  } finally {
    await handle.close()
  }
}

/** Refuses a directory that is missing, belongs to another store, or has other files. */
const identify = Effect.fnUntraced(function* (
  directory: string,
  { hasFiles, storeId }: SqlRunStore.FiledStore
) {
  const found = yield* attempt("open", async () => {
    const isThere = await stat(directory).then(
      (found) => found.isDirectory(),
      () => false
    )
    if (!isThere) return "missing"
    const known = await idIn(directory)
    if (known !== undefined) return known
    if (hasFiles) return "empty"
    if ((await readdir(directory)).some((name) => !name.startsWith(idFile))) return "foreign"
    const partial = join(directory, `${idFile}.${globalThis.crypto.randomUUID()}`)
    await writeFile(partial, storeId, { mode: 0o600, flush: true })
    await nameIfFree(partial, join(directory, idFile))
    await rm(partial, { force: true })
    await synced(directory)
    return idIn(directory)
  })
  if (found !== storeId) return yield* cannotOpen(problems[found ?? ""] ?? problems.other)
})

const idFile = "store"

/** The id of the store whose directory it is. */
export const idIn = (directory: string): Promise<string | undefined> =>
  readFile(join(directory, idFile), "utf8").catch((error: unknown) => {
    if (codeOf(error) === "ENOENT") return undefined
    throw error
  })

const problems: Readonly<Record<string, string>> & { readonly other: string } = {
  missing: "its directory of contents does not exist. Create it, or mount it.",
  empty:
    "its directory of contents has none of its contents. Give the directory with which it was opened before.",
  foreign: "its directory of contents has other files. Give an empty directory.",
  other: "its directory of contents belongs to another store. Give each store a directory of its own."
}

const cannotOpen = (detail: string) => failure("open", new RunStoreError.CannotOpen({ detail }))

const failure = (operation: string, reason: RunStoreError.RunStoreError["reason"]) =>
  new RunStoreError.RunStoreError({ operation, reason })

/** Runs an operation on files; its failures are `RunStoreError`s. */
const attempt = <A>(operation: string, act: () => Promise<A>) =>
  Effect.tryPromise({
    try: act,
    catch: (error) => {
      const code = codeOf(error) ?? "unknown"
      return failure(
        operation,
        full.has(code)
          ? new RunStoreError.StorageFull({
              detail: "the disk of the directory of contents, or a limit on it, is full"
            })
          : new RunStoreError.StoreFault({
              detail: `a file in the directory of contents could not be used (${code}).`,
              retryable: false
            })
      )
    }
  })

const full: ReadonlySet<string> = new Set(["ENOSPC", "EDQUOT", "EFBIG"])
