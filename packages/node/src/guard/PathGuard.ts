/**
 * The wall between a model's paths and the files of this machine.
 *
 * A guard has rules as data: the directories that may be read or changed, the places that ask, and the files of Fermata itself. Its
 * operations resolve a path to its real place, decide about the place, and then use it. On Linux, a link that changes meanwhile cannot lead
 * them elsewhere; see `docs/architecture/tool-safety.md`. They never open a pipe, a socket or a device, and by default no file with a
 * second name (a hard link), which could be outside. A path is used as it is written: nothing in it is decoded or expanded.
 *
 * An access that a rule asks about is refused unless the caller passes `approved`, after a person has approved it. {@link PathGuard.judge}
 * returns the decision without an access.
 *
 * @since 0.2.0
 */
import { OptionsInvalid } from "@fermata/sdk"
import { executedBelow } from "./internal/executed.ts"
import { guardOf, type PathGuard } from "./internal/guarded.ts"
import { parseRules, type Rules } from "./internal/pathRules.ts"
import { hasDescriptors } from "./internal/pinned.ts"
import { comparedNames } from "./internal/placePattern.ts"

export type { FileInfo, FileType } from "./internal/fileAccess.ts"
export type {
  AccessError,
  AccessOptions,
  Judgement,
  Listing,
  OpenFile,
  PathGuard
} from "./internal/guarded.ts"
export { FileError, FileProblem, PathDenied, Reason } from "./internal/pathErrors.ts"
export { type Access, credentials, type Place, type Rules } from "./internal/pathRules.ts"

/**
 * Makes a guard with these rules. Relative directories are resolved now, against the working directory of the process.
 *
 * **Example** (A workspace)
 *
 * ```ts run
 * import { PathGuard } from "@fermata/node"
 * import { Effect } from "effect"
 *
 * const guard = PathGuard.make({ write: ["."], own: ["fermata.db"] })
 * const program = Effect.gen(function* () {
 *   const outside = yield* guard.judge("../secret.txt", "read")
 *   const hook = yield* guard.judge(".git/hooks/pre-commit", "write")
 *   console.log(outside.decision, hook.decision) // deny ask
 * })
 * await Effect.runPromise(program)
 * ```
 *
 * **Errors**
 *
 * Throws `OptionsInvalid` if a rule is unknown or has a wrong value.
 *
 * @category constructors
 * @since 0.2.0
 */
export const make = (rules: Rules): PathGuard => {
  const problem = OptionsInvalid.problemOf("PathGuard.make", rules, shape)
  if (problem !== undefined) throw problem
  return guardOf({ rules: parseRules(rules), byDescriptor: hasDescriptors })
}

/**
 * Describes the program that would run a file with this path later, such as version control for a hook; `undefined` for any other file.
 * Also describes a directory that could contain such a file. A write to such a file always asks.
 *
 * @category predicates
 * @since 0.2.0
 */
export const executedLater = (path: string): string | undefined => executedBelow(comparedNames(path))

const isStrings = (value: unknown): boolean =>
  Array.isArray(value) &&
  value.every((each) => typeof each === "string" && each !== "" && !each.includes("\0"))

const strings = { takes: "a list of strings that are not empty", is: isStrings }
const oneOf = (...words: ReadonlyArray<string>) => ({
  takes: words.map((word) => `"${word}"`).join(" or "),
  is: (value: unknown) => (words as ReadonlyArray<unknown>).includes(value)
})

const shape: OptionsInvalid.Shape = {
  keys: {
    write: strings,
    read: strings,
    own: strings,
    places: {
      each: {
        demanded: true,
        keys: {
          pattern: {
            takes: "names, such as .aws or .docker/config.json",
            is: (value) => typeof value === "string" && comparedNames(value.replace(/^~\//, "")).length > 0,
            required: true
          },
          access: oneOf("read", "write"),
          decision: { ...oneOf("ask", "deny"), required: true },
          except: strings
        }
      }
    },
    hardLinks: oneOf("allow", "ask", "deny"),
    maxBytes: { takes: "a number of bytes", is: (value) => Number.isSafeInteger(value) && Number(value) >= 0 }
  }
}
