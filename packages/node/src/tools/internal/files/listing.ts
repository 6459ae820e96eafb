/**
 * Lists a directory for a model: names in order, with kinds and sizes, at some depth, and never more than a bound.
 */
import { Display, ToolError } from "@fermata/sdk"
import * as ByteSize from "effect/ByteSize"
import * as Effect from "effect/Effect"
import type * as FileSystem from "effect/FileSystem"
import { count } from "./count.ts"
import { failureOf } from "./places.ts"

/** The arguments of a call of `list_dir`. */
export interface ListRequest {
  readonly path: string
  readonly depth: number
  readonly maxEntries: number
}

type Failing<A> = Effect.Effect<A, ToolError.ToolFailure>

/** Directories whose entries are not listed below another one: they are large, and not written by hand. */
const closed = new Set([".git", "node_modules", ".hg", ".svn", ".venv", "__pycache__"])

interface Entry {
  /** From the listed directory. */
  readonly path: string
  readonly type: FileSystem.File.Type
  readonly note?: string
}

/** The names below a directory, in order. `info` is what is known of the directory. */
export const listDirectory = (
  files: FileSystem.FileSystem,
  request: ListRequest,
  info?: FileSystem.File.Info
): Failing<string> =>
  Effect.gen(function* () {
    const { depth, maxEntries, path } = request
    const { type } =
      info ?? (yield* files.stat(path).pipe(Effect.mapError((error) => failureOf(path, error))))
    if (type !== "Directory")
      return yield* Effect.fail(
        new ToolError.ToolFailure({
          description: Display.sentence`The path "${path}" is a file: read it with read_file.`
        })
      )
    const entries: Array<Entry> = []
    const seen = { missing: 0 }
    yield* collect(files, { at: path, prefix: "", depth, maxEntries }, entries, seen)
    if (entries.length === 0 && seen.missing === 0) return "[The directory is empty.]"
    const lines = yield* Effect.forEach(entries, (entry) => lineOf(files, path, entry), { concurrency: 16 })
    return seen.missing === 0
      ? lines.join("\n")
      : `${lines.join("\n")}\n[At least ${count(seen.missing, "more name")} are not shown. List a directory below, or raise maxEntries.]`
  })

interface Level {
  readonly at: string
  readonly prefix: string
  readonly depth: number
  readonly maxEntries: number
}

const collect = (
  files: FileSystem.FileSystem,
  { at, depth, maxEntries, prefix }: Level,
  entries: Array<Entry>,
  seen: { missing: number }
): Failing<void> =>
  Effect.gen(function* () {
    const names = yield* files.readDirectoryEntries(at).pipe(Effect.mapError((error) => failureOf(at, error)))
    const sorted = [...names].sort((one, other) => (one.name < other.name ? -1 : 1))
    for (const { name, type } of sorted) {
      if (entries.length >= maxEntries) {
        seen.missing += 1
        continue
      }
      const path = prefix + name
      const isEntered = type === "Directory" && depth > 1
      const isClosed = isEntered && closed.has(name)
      entries.push({ path, type, ...(isClosed ? { note: "not listed here" } : {}) })
      if (!isEntered || isClosed) continue
      const below = { at: join(at, name), prefix: `${path}/`, depth: depth - 1, maxEntries }
      const index = entries.length - 1
      // A directory that may not be read is listed with the reason.
      yield* Effect.catch(collect(files, below, entries, seen), () =>
        Effect.sync(() => void (entries[index] = { path, type, note: "may not be listed" }))
      )
    }
  })

export const join = (directory: string, name: string): string =>
  directory === "." ? name : directory.endsWith("/") ? directory + name : `${directory}/${name}`

const lineOf = (files: FileSystem.FileSystem, root: string, entry: Entry): Effect.Effect<string> => {
  const { note, path, type } = entry
  // A name with a line break would look like two.
  const name = Display.line(path)
  const said = (kind: string) => [name, kind, note].filter((part) => part !== undefined).join("\t")
  if (type === "Directory") return Effect.succeed(`${name}/${note === undefined ? "" : `\t${note}`}`)
  if (type === "SymbolicLink") return Effect.succeed(said("link"))
  if (type !== "File") return Effect.succeed(said("special file"))
  return files.stat(join(root, path)).pipe(
    Effect.map(({ size }) => said(count(Number(ByteSize.toBigInt(size)), "byte"))),
    // A file that asks or is refused is listed without its size.
    Effect.catch(() => Effect.succeed(said("not readable without approval")))
  )
}
