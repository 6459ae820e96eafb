/**
 * The wall between a model's paths and the files of this machine.
 *
 * A guard has rules as data: the directories that may be read or changed, the places that ask, and the files of Fermata itself. Its
 * operations resolve a path to its real place, decide, and then use that place so that a link that changes meanwhile leads nowhere else
 * (on Linux; see `docs/architecture/tool-safety.md`). They never open a pipe, a socket or a device, and read no file with a name elsewhere.
 * A path is used as it is written: nothing in it is decoded or expanded.
 *
 * What a rule asks about is refused unless the caller says that a person has allowed it. {@link PathGuard.judge} gives the decision before.
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
 * Makes a guard. Relative directories are resolved now.
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
 * Throws `OptionsInvalid` for rules that are none.
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
 * What runs a file later if it is written, in words, such as a hook of version control or the scripts of a package; `undefined` for any other
 * file. A write to such a file always asks.
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
