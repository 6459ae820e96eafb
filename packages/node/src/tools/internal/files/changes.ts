/**
 * Changes of a file: the new content that a call of `write_file` or `edit_file` would write, its presentation for a person, and whether it
 * has happened.
 *
 * A change is computed from the file as it is. An approval is for the file of this digest at this place: both are facts of the call, which are
 * read again right before the body.
 */
import { posix } from "node:path"
import { Display, type Sandbox, type Tool, ToolError } from "@fermata/sdk"
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import * as PathGuard from "../../../guard/PathGuard.ts"
import { applyEdits, type Edit } from "./applyEdits.ts"
import { count } from "./count.ts"
import { changedAt, digestOf, isSame, readIfThere, writeWhole } from "./fileContent.ts"
import { filesFor, type Place, refused } from "./places.ts"
import { decodeFile, encodeFile } from "./textFile.ts"
import { countLines, unifiedDiff } from "./unifiedDiff.ts"

/** The arguments of a change: a new content, or edits of the present content. */
export interface ChangeArguments {
  readonly path: string
  readonly content?: string
  readonly edits?: ReadonlyArray<Edit>
}

interface Change {
  readonly before: Uint8Array | undefined
  readonly after: Uint8Array
  /** `undefined` for a file that is not text. */
  readonly textBefore: string | undefined
  readonly textAfter: string
  readonly places: number
  readonly lines: ReadonlyArray<number>
}

type Failing<A> = Effect.Effect<A, ToolError.ToolFailure>

const fail = (description: string): Failing<never> => Effect.fail(new ToolError.ToolFailure({ description }))

/** The content of the file after the change. If the change cannot be made, fails with the reason for the model. */
const changeOf = (args: ChangeArguments, before: Uint8Array | undefined): Failing<Change> => {
  const { content, edits, path } = args
  const file = before === undefined ? undefined : decodeFile(before)
  if (edits === undefined) {
    const textAfter = content ?? ""
    const after = encodeFile(textAfter, "utf-8")
    if (after === undefined)
      return fail(
        "The content has half of a surrogate pair, which is no character. Write the whole character."
      )
    return Effect.succeed({ before, after, textBefore: file?.text, textAfter, places: 1, lines: [] })
  }
  if (before === undefined)
    return fail(
      Display.sentence`The path "${path}" does not exist: list the directory to see its names, or use write_file for a new file.`
    )
  if (file === undefined)
    return fail(Display.sentence`The file "${path}" is no text, so it cannot be edited.`)
  const edited = applyEdits(file.text, edits)
  if (Result.isFailure(edited)) return fail(edited.failure)
  const { lines, places, text } = edited.success
  const after = encodeFile(text, file.encoding)
  if (after === undefined)
    return fail(
      Display.sentence`The file "${path}" is in the encoding ${file.encoding}, which lacks a character of newText. Nothing was changed.`
    )
  return Effect.succeed({ before, after, textBefore: file.text, textAfter: text, places, lines })
}

/** The judgements of reading and writing a path; the stricter one applies to a change. */
interface Judged {
  readonly place: string
  readonly reads: Sandbox.PathJudgement
  readonly writes: Sandbox.PathJudgement
}

/** Judges writing and reading a path, concurrently, since a place on another machine then needs one request for both. */
const judgements = (place: Place, path: string) =>
  Effect.all([place.judgePath(path, "write"), place.judgePath(path, "read")], { concurrency: 2 })

/** Judges a path. Fails if it may not be written, or not read. */
const judgeChange = (place: Place, path: string): Failing<Judged> =>
  Effect.gen(function* () {
    const [writes, reads] = yield* judgements(place, path)
    if (writes.decision === "deny") return yield* Effect.fail(refused(path, writes))
    if (reads.decision === "deny") return yield* Effect.fail(refused(path, reads))
    return { place: writes.path, reads, writes }
  })

/** Why each change of a path has to be approved by a person; `undefined` if a policy or a grant may let it through. */
export const whyAlways = (place: Place, path: string): Effect.Effect<string | undefined> =>
  Effect.map(judgements(place, path), ([writes, reads]) => {
    if (writes.decision !== "ask" && reads.decision !== "ask") return undefined
    const later = runsLater(place, path, writes.path)
    return later === undefined ? "The file can hold credentials." : `The file is executed later: ${later}.`
  })

/** The file as it is, for the person who decides. The model does not receive it. */
const readForPerson = (place: Place, path: string): Failing<Uint8Array | undefined> =>
  readIfThere(place.approvedFiles, path)

/** The judgements and the content at the path of a change. */
interface Seen {
  readonly judged: Judged
  readonly before: Uint8Array | undefined
}

/** The source of the facts that were read last in a place, for the preview and the risk of the call. One for each place, since it is a whole file. */
const lastSeen = new WeakMap<
  Place["files"],
  { readonly path: string; readonly seen: Seen; readonly at: number }
>()

/** How long after the facts a preview and a risk may use their source, in milliseconds. */
const longestSeenMs = 5000

/** Judges the path of a change and reads its content, concurrently, since each may need a request to another machine. */
const look = (place: Place, path: string): Failing<Seen> =>
  Effect.gen(function* () {
    const [judged, before] = yield* Effect.all(
      [Effect.result(judgeChange(place, path)), Effect.result(readForPerson(place, path))],
      { concurrency: 2 }
    )
    if (Result.isFailure(judged)) return yield* Effect.fail(judged.failure)
    if (Result.isFailure(before)) return yield* Effect.fail(before.failure)
    return { judged: judged.success, before: before.success }
  })

/** The source of the facts of a change that were read right before: the diff for the person is that of the digest in the facts. */
const seenFor = (place: Place, path: string): Seen | undefined => {
  const last = lastSeen.get(place.files)
  return last?.path === path && performance.now() - last.at < longestSeenMs ? last.seen : undefined
}

/**
 * The facts of a call, on which an approval depends: where the path leads, and the digest of the content that is replaced there. Fails for
 * a change that cannot be made.
 */
export const factsOf = (place: Place, args: ChangeArguments) =>
  Effect.gen(function* () {
    lastSeen.delete(place.files)
    const seen = yield* look(place, args.path)
    const { before, judged } = seen
    // Whether a text occurs in a file with credentials is not for the model to find out without an approval.
    if (judged.reads.decision === "allow") yield* changeOf(args, before)
    lastSeen.set(place.files, { path: args.path, seen, at: performance.now() })
    return { path: judged.place, before: digestOf(before) }
  })

/** What runs a file later, by the name that was given and by where it leads. */
const runsLater = (place: Place, path: string, leadsTo: string): string | undefined => {
  const inside = posix.relative(place.workdir, leadsTo)
  return PathGuard.executedLater(path) ?? PathGuard.executedLater(inside.startsWith("..") ? leadsTo : inside)
}

/** The change for a person: the exact path, what runs it later, and the diff. */
export const previewOf = (
  place: Place,
  args: ChangeArguments
): Effect.Effect<string, ToolError.ToolFailure> =>
  Effect.gen(function* () {
    const { before, judged } = seenFor(place, args.path) ?? (yield* look(place, args.path))
    const leadsTo = judged.place
    const verb = args.edits !== undefined ? "Edit" : before === undefined ? "Create" : "Replace"
    const later = runsLater(place, args.path, leadsTo)
    const head = [
      Display.sentence`${verb} ${args.path}`,
      Display.sentence`Place: ${leadsTo} (${place.target})`,
      ...(later === undefined ? [] : [`EXECUTED LATER: ${later}`])
    ]
    const change = yield* Effect.result(changeOf(args, before))
    if (Result.isFailure(change)) return [...head, Display.text(change.failure.message)].join("\n")
    return [...head, ...describe(change.success), "", diffOf(args.path, change.success)].join("\n")
  })

const describe = ({ after, before, places, textAfter, textBefore }: Change): ReadonlyArray<string> => {
  const size = (bytes: Uint8Array, text: string | undefined) =>
    text === undefined
      ? `${count(bytes.length, "byte")}, no text`
      : `${count(countLines(text), "line")}, ${count(bytes.length, "byte")}`
  const now = size(after, textAfter)
  const notes = [
    before === undefined ? `New: ${now}` : `Before: ${size(before, textBefore)}. After: ${now}`,
    ...(places > 1 ? [`Changes ${count(places, "place")}`] : []),
    ...(isHiding(textAfter) || isHiding(textBefore ?? "")
      ? ["Characters that are not visible are shown as escapes, such as \\u{202e}."]
      : [])
  ]
  return notes
}

const isHiding = (text: string): boolean => {
  const plain = text.replaceAll("\r\n", "\n")
  return Display.text(plain) !== plain
}

const diffOf = (path: string, { after, before, textAfter, textBefore }: Change): string => {
  if (isSame(before, after)) return "Nothing changes: the file has this content."
  const old = before === undefined ? undefined : (textBefore ?? "")
  return unifiedDiff({ path, before: old, after: textAfter }) || "Only the encoding of the file changes."
}

/** The risk of a change, for the person who decides. */
export const riskOf = (place: Place, path: string): Effect.Effect<string> =>
  Effect.suspend(() => {
    const seen = seenFor(place, path)
    // The content is kept no longer than for the request.
    lastSeen.delete(place.files)
    return seen === undefined
      ? Effect.map(judgements(place, path), ([writes, reads]) => riskBy(place, path, { reads, writes }))
      : Effect.succeed(riskBy(place, path, seen.judged))
  })

const riskBy = (place: Place, path: string, { reads, writes }: Pick<Judged, "reads" | "writes">): string => {
  const later = runsLater(place, path, writes.path)
  return [
    ...(later === undefined ? [] : [`What is written here runs later, without another question: ${later}.`]),
    ...(reads.decision === "ask" ? ["The file can hold credentials."] : []),
    "The file is written at once, and what it had before is not kept."
  ].join(" ")
}

/** Makes the change. */
export const makeChange = (place: Place, args: ChangeArguments, isApproved: boolean): Failing<string> =>
  Effect.gen(function* () {
    const { path } = args
    lastSeen.delete(place.files)
    const [reading, writing, read] = yield* Effect.all(
      [
        filesFor(place, path, "read", isApproved),
        filesFor(place, path, "write", isApproved),
        Effect.result(readIfThere(place.files, path))
      ],
      { concurrency: 3 }
    )
    // What is read without the approval is used only where none was needed.
    const before =
      reading === place.files ? yield* Effect.fromResult(read) : yield* readIfThere(reading, path)
    const change = yield* changeOf(args, before)
    if (!isSame(change.before, change.after)) yield* writeWhole(writing, path, change.after)
    return resultOf(args, change)
  })

const resultOf = ({ edits, path }: ChangeArguments, change: Change): string => {
  const { after, before, lines, places, textAfter } = change
  const size = `${count(countLines(textAfter), "line")}, ${count(after.length, "byte")}`
  if (isSame(before, after)) return Display.sentence`${path} has this content already: ${size}.`
  if (edits === undefined)
    return Display.sentence`${before === undefined ? "Created" : "Replaced"} ${path}: ${size}.`
  const more = places > lines.length ? ", …" : ""
  return Display.sentence`Changed ${count(places, "place")} of ${path}, at the ${lines.length === 1 ? "line" : "lines"} ${lines.join(", ")}${more}. It has ${size} now.`
}

/** How much the clocks of two machines, and that of a file system, may differ. */
const clockSkewMs = 2_000

/**
 * Determines whether a change without a recorded result has happened. It has if the file has the new content. It has not if the file is
 * older than the call or does not exist. Otherwise the outcome is unknown, because another program may have changed the file.
 */
export const reconciled = (
  place: Place,
  args: ChangeArguments,
  startedAt: number | undefined
): Effect.Effect<Tool.Reconciled> =>
  Effect.gen(function* (): Effect.fn.Return<Tool.Reconciled, ToolError.ToolFailure> {
    const unknown = { _tag: "unknown" } as const
    const { path } = args
    const { approvedFiles: files } = place
    const now = yield* readIfThere(files, path)
    if (now === undefined) return args.edits === undefined ? { _tag: "notHappened" } : unknown
    const changed = yield* changedAt(files, path)
    if (startedAt !== undefined && changed !== undefined && changed < startedAt - clockSkewMs)
      return { _tag: "notHappened" }
    const done = doneChange(args, now)
    return done === undefined ? unknown : { _tag: "happened", result: done }
  }).pipe(Effect.catch(() => Effect.succeed({ _tag: "unknown" } as const)))

/** The result of a change that the file shows; `undefined` if it does not show it. */
const doneChange = (args: ChangeArguments, now: Uint8Array): string | undefined => {
  const { content, edits, path } = args
  if (edits === undefined)
    return isSame(encodeFile(content ?? "", "utf-8"), now)
      ? Display.sentence`Wrote ${path}: ${count(now.length, "byte")}.`
      : undefined
  const text = decodeFile(now)?.text.replaceAll("\r\n", "\n")
  if (text === undefined) return undefined
  const plain = (value: string) => value.replaceAll("\r\n", "\n")
  const isDone = edits.every(({ newText, oldText }) => {
    const [added, removed] = [plain(newText), plain(oldText)]
    if (added === "") return !text.includes(removed)
    // A new text can have the old one in it.
    return text.includes(added) && !text.split(added).join("\0").includes(removed)
  })
  return isDone
    ? Display.sentence`Changed ${path}: it has the new text, and no longer the old one.`
    : undefined
}
