/**
 * The definitions of `write_file` and `edit_file`. The code of a call is loaded on its first use.
 */
import { type Tool as ToolNamespace, Tool } from "@fermata/sdk"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { actingOf, type Acting, type FileToolOptions } from "./acting.ts"
import { isApproved, startedAtOf } from "./approved.ts"
import type * as Changes from "./changes.ts"
import type { Place } from "./places.ts"

const changes = Effect.promise(() => import("./changes.ts"))

/** The callbacks that both tools share: they compute the change, and the body makes it. */
const changing = ({ placeOf, sandbox }: Acting) => {
  const using =
    <A, E>(
      use: (changes: typeof Changes, place: Place, args: Changes.ChangeArguments) => Effect.Effect<A, E>
    ) =>
    (args: Changes.ChangeArguments, context: object) =>
      Effect.flatMap(Effect.all([changes, placeOf(context)]), ([loaded, place]) => use(loaded, place, args))
  return {
    safety: "sideEffecting",
    effects: "workspace",
    sandbox,
    needsApproval: using(({ whyAlways }, place, { path }) =>
      Effect.map(whyAlways(place, path), (why) => why === undefined || { always: why })
    ),
    facts: using(({ factsOf }, place, args) => factsOf(place, args)),
    preview: using(({ previewOf }, place, args) => previewOf(place, args)),
    risk: using(({ riskOf }, place, { path }) => riskOf(place, path)),
    reconcile: (_key: string, args: Changes.ChangeArguments, context: object) =>
      using(({ reconciled }, place) => reconciled(place, args, startedAtOf(context)))(args, context),
    handler: (args: Changes.ChangeArguments, context: object) =>
      using(({ makeChange }, place) => makeChange(place, args, isApproved(context)))(args, context)
  } as const
}

const path = Schema.String.annotate({
  description: "The path of the file, relative to the working directory, such as src/index.ts"
})

/**
 * Makes the tool `write_file`: creates a file, or replaces the whole content of one.
 *
 * **Details**
 *
 * A call needs approval. The request shows the exact place, whether other programs run the file later, and a unified diff; it is bound to
 * the content of the file, by the digest among the facts, so that the call asks again if the file has changed meanwhile. The content is
 * written as UTF-8, and the file is replaced as a whole. After a crash, the content of the file shows whether the call has happened.
 *
 * @category constructors
 * @since 0.2.0
 */
export const writeFile = (options: FileToolOptions = {}): ToolNamespace.Tool =>
  Tool.make("write_file", {
    description: `Creates a file with this content, or replaces the whole content of a file that exists. Directories that are missing are created. \
To change a part of a file, use edit_file.`,
    parameters: Schema.Struct({
      path,
      content: Schema.String.annotate({
        description:
          "The whole content of the file, without line numbers, with a line break at the end of the last line"
      })
    }),
    ...changing(actingOf("writeFile", options))
  })

/**
 * Makes the tool `edit_file`: replaces exact texts in a file.
 *
 * **Details**
 *
 * All edits of a call are made, or none. The text to replace has to occur exactly once, unless the edit has `replaceAll`. Otherwise the
 * call fails without asking, and the model reads how often the text occurs, and which lines are similar. Approval and recovery are those of
 * {@link writeFile}. The encoding and the line ends of the file stay.
 *
 * @category constructors
 * @since 0.2.0
 */
export const editFile = (options: FileToolOptions = {}): ToolNamespace.Tool =>
  Tool.make("edit_file", {
    description: `Replaces exact texts in a file. Read the file before. All edits of a call are made, in their order, or none. \
If a text does not occur, or more than once, nothing is changed, and the result says so.`,
    parameters: Schema.Struct({
      path,
      edits: Schema.NonEmptyArray(
        Schema.Struct({
          oldText: Schema.String.annotate({
            description:
              "The text to replace, exactly as it is in the file, with its indentation and without line numbers. Give enough lines that it is unique"
          }),
          newText: Schema.String.annotate({
            description: "The text that takes its place; empty to remove it"
          }),
          replaceAll: Schema.optionalKey(
            Schema.Boolean.annotate({
              description: "Whether to replace each place where the text occurs. Default: false"
            })
          )
        })
      ).annotate({ description: "The replacements" })
    }),
    ...changing(actingOf("editFile", options))
  })
