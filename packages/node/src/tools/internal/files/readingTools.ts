/**
 * The definitions of `read_file`, `list_dir` and `search_files`. The code of a call is loaded on its first use.
 */
import { Display, type Tool as ToolNamespace, Tool } from "@fermata/sdk"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import { actingOf, type Acting, type FileToolOptions } from "./acting.ts"
import { isApproved } from "./approved.ts"
import { filesFor, type Place } from "./places.ts"

const line = (description: string) =>
  Schema.optionalKey(Schema.Int.check(Schema.isGreaterThanOrEqualTo(1)).annotate({ description }))

const maxLines = 2_000
const maxLength = 60_000

/**
 * The callbacks of a tool that reads. If the rules ask about a path, the call needs an approval, which is bound to the real place of the
 * path.
 */
const asking = ({ placeOf }: Acting, verb: string) => ({
  needsApproval: ({ path = "." }: { readonly path?: string }, context: object) =>
    Effect.flatMap(placeOf(context), (place) =>
      Effect.map(
        place.judgePath(path, "read"),
        ({ decision }) => decision === "ask" && { always: "The path can hold credentials." }
      )
    ),
  facts: ({ path = "." }: { readonly path?: string }, context: object) =>
    Effect.flatMap(placeOf(context), (place) =>
      Effect.map(place.judgePath(path, "read"), (judged) => ({ path: judged.path }))
    ),
  preview: ({ path = "." }: { readonly path?: string }, context: object) =>
    Effect.flatMap(placeOf(context), (place) =>
      Effect.map(
        place.judgePath(path, "read"),
        (judged) => Display.sentence`${verb} ${path}\nPlace: ${judged.path} (${place.target})`
      )
    ),
  risk: "The path can hold credentials. The model reads what is there, and it is sent to the provider of the model."
})

/** The files that a call may read, and what is at its path. At the same time, since a place elsewhere then looks at the path once. */
const lookAt = (place: Place, path: string, context: object) =>
  Effect.map(
    Effect.all([filesFor(place, path, "read", isApproved(context)), Effect.option(place.files.stat(path))], {
      concurrency: 2
    }),
    // What is seen without the approval is used only where none was needed.
    ([files, found]) => ({ files, info: files === place.files ? Option.getOrUndefined(found) : undefined })
  )

/**
 * Makes the tool `read_file`: the lines of a text file with their numbers, in parts, or an image or a PDF as an attachment.
 *
 * **Details**
 *
 * A path inside of the workspace is read without approval, a path that can hold credentials needs approval, and a path outside is refused.
 * A part has at most 2,000 lines, and its end says which line follows. UTF-8, UTF-16 with a byte order mark and windows-1252 are decoded. A
 * file that is neither text nor an image or PDF fails the call.
 *
 * @category constructors
 * @since 0.2.0
 */
export const readFile = (options: FileToolOptions = {}): ToolNamespace.Tool => {
  const acting = actingOf("readFile", options)
  const { maxFileSize = 5_000_000 } = options
  return Tool.make("read_file", {
    description: `Reads a file. Text is returned with a line number and a tab before each line, which are not part of the file; images and PDFs are attached. \
At most ${maxLines} lines are returned at once: the end of a result says how to read on. Other binary files cannot be read.`,
    parameters: Schema.Struct({
      path: Schema.String.annotate({
        description: "The path of the file, relative to the working directory, such as src/index.ts"
      }),
      startLine: line("The first line to read, from 1. Default: 1"),
      endLine: line("The last line to read. Default: the last of the file, or of the part")
    }),
    safety: "readOnly",
    sandbox: acting.sandbox,
    ...asking(acting, "Read"),
    // The base64 of the largest file, and the longest text.
    maxResultLength: Math.ceil(maxFileSize / 3) * 4 + 2 * maxLength,
    handler: (range, context) =>
      Effect.gen(function* () {
        const place = yield* acting.placeOf(context)
        const { readPart } = yield* Effect.promise(() => import("./readPart.ts"))
        const { files, info } = yield* lookAt(place, range.path, context)
        return yield* readPart(files, range, { maxLines, maxLength, maxFileSize }, info)
      })
  })
}

/**
 * Makes the tool `list_dir`: the names in a directory and, to a depth, below it, with kinds and sizes.
 *
 * @category constructors
 * @since 0.2.0
 */
export const listDir = (options: FileToolOptions = {}): ToolNamespace.Tool => {
  const acting = actingOf("listDir", options)
  return Tool.make("list_dir", {
    description: `Lists the names in a directory, in order: directories with a slash at the end, files with their sizes, links (which are not followed). \
With a depth, also the names below its directories, without the contents of .git and node_modules. Use search_files to find files by a pattern.`,
    parameters: Schema.Struct({
      path: Schema.optionalKey(
        Schema.String.annotate({
          description: "The directory, relative to the working directory. Default: the working directory"
        })
      ),
      depth: Schema.optionalKey(
        Schema.Int.check(Schema.isBetween({ minimum: 1, maximum: 10 })).annotate({
          description: "How many levels to list: 1 is the directory alone. Default: 1"
        })
      ),
      maxEntries: Schema.optionalKey(
        Schema.Int.check(Schema.isBetween({ minimum: 1, maximum: 2_000 })).annotate({
          description: "The most names to list. Default: 300"
        })
      )
    }),
    safety: "readOnly",
    sandbox: acting.sandbox,
    ...asking(acting, "List"),
    handler: ({ depth = 1, maxEntries = 300, path = "." }, context) =>
      Effect.gen(function* () {
        const place = yield* acting.placeOf(context)
        const { files, info } = yield* lookAt(place, path, context)
        const { listDirectory } = yield* Effect.promise(() => import("./listing.ts"))
        return yield* listDirectory(files, { path, depth, maxEntries }, info)
      })
  })
}

/**
 * Makes the tool `search_files`: the lines that match a regular expression, or the files whose names match a glob.
 *
 * **Details**
 *
 * ripgrep finds the files if it is installed; otherwise the tool searches them itself. Hidden files and what `.gitignore` excludes are left
 * out unless the call asks for them. Files are read by the rules of `read_file`, so files that can hold credentials are not searched. A
 * pattern is one of RE2: it has no look-around and no back-references, and takes time in proportion to the text.
 *
 * @category constructors
 * @since 0.2.0
 */
export const searchFiles = (options: FileToolOptions = {}): ToolNamespace.Tool => {
  const acting = actingOf("searchFiles", options)
  const { searchTimeout = "20 seconds" } = options
  const limits = {
    timeoutMs: Duration.toMillis(Duration.fromInputUnsafe(searchTimeout)),
    maxFileSize: 5 * 1024 * 1024,
    maxLength
  }
  return Tool.make("search_files", {
    description: `Searches the contents of files below a directory for a regular expression, and returns the matching lines with their numbers, by file. \
Without a pattern, it finds files by the glob. Hidden files and files that .gitignore excludes are left out unless all is set.`,
    parameters: Schema.Struct({
      pattern: Schema.optionalKey(
        Schema.String.annotate({
          description:
            "The regular expression (RE2: no look-around, no back-references), which is searched in each line. Leave it out to find files by the glob"
        })
      ),
      path: Schema.optionalKey(
        Schema.String.annotate({
          description: "The directory or file to search. Default: the working directory"
        })
      ),
      glob: Schema.optionalKey(
        Schema.String.annotate({
          description: "Only files whose path matches, such as *.ts, src/**/*.test.ts or *.{js,ts}"
        })
      ),
      literal: Schema.optionalKey(
        Schema.Boolean.annotate({
          description: "Whether the pattern is a text and not a regular expression. Default: false"
        })
      ),
      ignoreCase: Schema.optionalKey(
        Schema.Boolean.annotate({
          description: "Whether upper and lower case letters are the same. Default: false"
        })
      ),
      context: Schema.optionalKey(
        Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: 20 })).annotate({
          description: "How many lines to show before and after each match. Default: 0"
        })
      ),
      maxResults: Schema.optionalKey(
        Schema.Int.check(Schema.isBetween({ minimum: 1, maximum: 1_000 })).annotate({
          description: "The most matches to return. Default: 100"
        })
      ),
      all: Schema.optionalKey(
        Schema.Boolean.annotate({
          description:
            "Whether to search hidden files and those that .gitignore excludes, too. Default: false"
        })
      )
    }),
    safety: "readOnly",
    sandbox: acting.sandbox,
    ...asking(acting, "Search"),
    handler: (args, context) =>
      Effect.gen(function* () {
        const { all = false, context: around = 0, glob, ignoreCase = false, literal = false } = args
        const { maxResults = 100, path = ".", pattern } = args
        const place = yield* acting.placeOf(context)
        const files = yield* filesFor(place, path, "read", isApproved(context))
        const { search } = yield* Effect.promise(() => import("./searching.ts"))
        const request = {
          path,
          pattern,
          glob,
          isLiteral: literal,
          isCaseIgnored: ignoreCase,
          context: around,
          maxResults,
          isAll: all
        }
        return yield* search(place, files, request, limits)
      })
  })
}
