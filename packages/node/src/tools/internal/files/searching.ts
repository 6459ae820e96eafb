/**
 * Searches the texts of files for a model. Patterns are regular expressions of RE2, which take time in proportion to the text. Each file is read
 * through the rules of the place, so a search shows nothing that reading would not.
 */
import { Display, ToolError } from "@fermata/sdk"
import * as ByteSize from "effect/ByteSize"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import type * as FileSystem from "effect/FileSystem"
import { count } from "./count.ts"
import { alternatives, matchesGlob, parseGlob, type Segment } from "./globs.ts"
import { join } from "./listing.ts"
import { failureOf, type Place } from "./places.ts"
import { findWithRipgrep } from "./ripgrep.ts"
import { decodeFile } from "./textFile.ts"
import { walk } from "./walk.ts"

/** The arguments of a call of `search_files`, and the bounds of the search. */
export interface SearchRequest {
  readonly path: string
  /** `undefined` finds files by their names. */
  readonly pattern: string | undefined
  readonly isLiteral: boolean
  readonly isCaseIgnored: boolean
  readonly glob: string | undefined
  readonly context: number
  readonly maxResults: number
  readonly isAll: boolean
}

export interface SearchLimits {
  readonly timeoutMs: number
  /** The largest file that is searched, in bytes. */
  readonly maxFileSize: number
  /** The longest result, in characters. */
  readonly maxLength: number
}

type Failing<A> = Effect.Effect<A, ToolError.ToolFailure>

const fail = (description: string): Failing<never> => Effect.fail(new ToolError.ToolFailure({ description }))

/** The most files of a search. */
const maxFiles = 100_000

/** The longest part of a line that is shown, in characters. */
const longestLine = 500

/** Whether a line has what is searched. */
type Test = (line: string) => boolean

/**
 * Searches a file or the files of a directory, and writes the report for the model. Fails with a sentence for a request that cannot be
 * used.
 */
export const search = (
  place: Place,
  files: FileSystem.FileSystem,
  request: SearchRequest,
  limits: SearchLimits
): Failing<string> =>
  Effect.gen(function* () {
    const { path } = request
    const test = yield* testOf(request)
    const selects = yield* selectionOf(request.glob)
    const clock = yield* Clock.Clock
    const end = clock.currentTimeMillisUnsafe() + limits.timeoutMs
    const isOver = () => clock.currentTimeMillisUnsafe() > end
    const { type } = yield* files.stat(path).pipe(Effect.mapError((error) => failureOf(path, error)))
    const isDirectory = type === "Directory"
    const found = isDirectory
      ? yield* candidates(place, files, request, limits, isOver)
      : { paths: [""], isComplete: true, unread: 0 }
    const paths = found.paths.filter((each) => !isDirectory || selects(each))
    const naming = (each: string) => (isDirectory ? join(path, each) : path)
    const report = new Report(request, limits)
    if (!found.isComplete)
      report.note("The search ended before it had seen all files: search in a directory below.")
    if (found.unread > 0) report.note(`${count(found.unread, "directory", "directories")} could not be read.`)
    if (test === undefined) {
      for (const each of paths) if (!report.addName(naming(each))) break
      return report.end()
    }
    const skipped = { asking: 0, large: 0, binary: 0 }
    for (let start = 0; start < paths.length && !report.isFull; start += batch) {
      if (isOver()) {
        report.note("The time of the search was over: search in a directory below, or with a glob.")
        break
      }
      const texts = yield* Effect.forEach(
        paths.slice(start, start + batch),
        (each) => readText(files, naming(each), limits, skipped),
        { concurrency: batch }
      )
      for (const [index, text] of texts.entries())
        if (text !== undefined) report.addMatches(naming(paths[start + index]!), text.split("\n"), test)
    }
    if (!isDirectory && skipped.large + skipped.binary > 0)
      return yield* fail(
        Display.sentence`The file "${path}" cannot be searched: it is ${skipped.large > 0 ? `larger than ${count(limits.maxFileSize, "byte")}` : "no text"}.`
      )
    if (skipped.asking > 0)
      report.note(`Not searched: ${count(skipped.asking, "file")} that cannot be read without approval.`)
    if (skipped.large > 0)
      report.note(
        `Not searched: ${count(skipped.large, "file")} of more than ${count(limits.maxFileSize, "byte")}.`
      )
    return report.end()
  })

/** How many files are read at once. */
const batch = 16

const candidates = (
  place: Place,
  files: FileSystem.FileSystem,
  { isAll, isCaseIgnored, isLiteral, path, pattern }: SearchRequest,
  { maxFileSize, timeoutMs }: SearchLimits,
  isOver: () => boolean
) =>
  Effect.gen(function* () {
    const found = yield* findWithRipgrep(place, {
      pattern,
      isLiteral,
      isCaseIgnored,
      isAll,
      directory: path,
      maxFileSize,
      timeoutMs
    })
    return found === undefined
      ? yield* walk(files, path, { isAll, maxFiles }, isOver)
      : { ...found, unread: 0 }
  })

const testOf = ({ isCaseIgnored, isLiteral, pattern }: SearchRequest): Failing<Test | undefined> =>
  Effect.gen(function* () {
    if (pattern === undefined) return undefined
    if (pattern === "") return yield* fail("The pattern is empty. Leave it out to find files by their names.")
    // Loaded in programs whose agents search.
    const { RE2JS } = yield* Effect.promise(() => import("re2js"))
    try {
      const expression = RE2JS.compile(
        isLiteral ? RE2JS.quote(pattern) : pattern,
        isCaseIgnored ? RE2JS.CASE_INSENSITIVE : 0
      )
      return (line: string) => expression.matcher(line).find()
    } catch (cause) {
      return yield* fail(
        Display.sentence`The pattern is no regular expression of RE2: ${Display.messageOf(cause)}. RE2 has no look-around and no back-references. Set literal to search for the text as it is.`
      )
    }
  })

const selectionOf = (glob: string | undefined): Failing<(path: string) => boolean> =>
  Effect.gen(function* () {
    if (glob === undefined || glob === "") return () => true
    const patterns: Array<ReadonlyArray<Segment>> = []
    for (const one of alternatives(glob.replace(/^\.?\//, "")) ?? []) {
      const parsed = parseGlob(one)
      // A pattern without a slash is for names at any depth.
      if (parsed !== undefined) patterns.push(one.includes("/") ? parsed : ["names", ...parsed])
    }
    if (patterns.length === 0)
      return yield* fail(
        Display.sentence`The glob ${glob} is malformed: use one such as *.ts or src/**/*.{js,ts}.`
      )
    return (path: string) => patterns.some((pattern) => matchesGlob(pattern, path.split("/")))
  })

const readText = (
  files: FileSystem.FileSystem,
  path: string,
  { maxFileSize }: SearchLimits,
  skipped: { asking: number; large: number; binary: number }
): Effect.Effect<string | undefined> =>
  Effect.gen(function* () {
    const { size } = yield* files.stat(path)
    if (Number(ByteSize.toBigInt(size)) > maxFileSize) {
      skipped.large += 1
      return undefined
    }
    const text = decodeFile(yield* files.readFile(path))?.text
    if (text === undefined) skipped.binary += 1
    return text
  }).pipe(
    Effect.catch(({ reason }) => {
      if (reason._tag === "PermissionDenied") skipped.asking += 1
      return Effect.succeed(undefined)
    })
  )

/** The lines of a result, up to its bounds. */
class Report {
  readonly #lines: Array<string> = []
  readonly #notes: Array<string> = []
  #results = 0
  #files = 0
  #length = 0
  isFull = false
  private readonly request: SearchRequest
  private readonly limits: SearchLimits

  constructor(request: SearchRequest, limits: SearchLimits) {
    this.request = request
    this.limits = limits
  }

  note(text: string): void {
    this.#notes.push(text)
  }

  addName(path: string): boolean {
    this.#results += 1
    return this.#add(Display.line(path))
  }

  /** Adds the lines of a file that match, with those around them. */
  addMatches(path: string, lines: ReadonlyArray<string>, test: Test): void {
    const { context, maxResults } = this.request
    let shownTo = -1
    let isNamed = false
    for (const [index, line] of lines.entries()) {
      if (this.isFull) return
      if ((index === lines.length - 1 && line === "") || !test(line.replace(/\r$/, ""))) continue
      if (this.#results >= maxResults) {
        this.isFull = true
        this.note(
          `There are more than ${count(maxResults, "match", "matches")}: narrow the pattern, the glob or the path.`
        )
        return
      }
      this.#results += 1
      if (!isNamed) {
        this.#files += 1
        this.#add(Display.line(path))
        isNamed = true
      }
      const from = Math.max(shownTo + 1, index - context)
      if (context > 0 && from > shownTo + 1 && shownTo >= 0) this.#add("  --")
      const to = Math.min(lines.length - 1, index + context)
      for (let at = from; at <= to; at += 1)
        this.#addLine(lines, at, at === index || (at > index && test(lines[at]!)))
      // A match among the lines after this one is counted when it is reached.
      shownTo = Math.max(shownTo, to)
    }
  }

  #addLine(lines: ReadonlyArray<string>, at: number, isMatch: boolean): void {
    const line = lines[at]!.replace(/\r$/, "")
    if (at === lines.length - 1 && line === "") return
    const shown = line.slice(0, longestLine)
    const missing = line.length - shown.length
    this.#add(
      `  ${at + 1}${isMatch ? ":" : "-"} ${shown}${missing === 0 ? "" : `[… ${count(missing, "more character")} …]`}`
    )
  }

  #add(line: string): boolean {
    if (this.#length + line.length > this.limits.maxLength) {
      if (!this.isFull) this.note("The result is too long: narrow the pattern, the glob or the path.")
      this.isFull = true
      return false
    }
    this.#lines.push(line)
    this.#length += line.length + 1
    return true
  }

  end(): string {
    const { pattern } = this.request
    const found =
      this.#results === 0
        ? pattern === undefined
          ? "No files were found."
          : "Nothing was found."
        : pattern === undefined
          ? `${count(this.#results, "file")}.`
          : `${count(this.#results, "match", "matches")} in ${count(this.#files, "file")}.`
    return [...this.#lines, `[${[found, ...this.#notes].join(" ")}]`].join("\n")
  }
}
