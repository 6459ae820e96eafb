/**
 * The options of the file tools, and where the tools act by them.
 */
import { OptionsInvalid } from "@fermata/sdk"
import * as Duration from "effect/Duration"
import type * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as PathGuard from "../../../guard/PathGuard.ts"
import { machinePlace, type Place, type PlaceOf, sandboxPlace } from "./places.ts"

/** Options of the file tools. */
export interface FileToolOptions {
  /** The directory of this machine in which the tools act. Default: the tools act in the sandbox of the run. */
  readonly root?: string
  /**
   * Further rules of the `PathGuard`: directories besides `root`, places that ask, files of the program. Only with `root`: without it, the
   * sandbox has its own.
   */
  readonly rules?: PathGuard.Rules
  /** The largest image or PDF, in bytes, that `read_file` attaches to a result. Default: 5,000,000. */
  readonly maxFileSize?: number
  /** The longest time of a search by `search_files`, which then returns what it has found. Default: 20 seconds. */
  readonly searchTimeout?: Duration.Input
}

/** The place of a tool, as its definition fixes it. */
export interface Acting {
  readonly sandbox: boolean
  readonly placeOf: PlaceOf
}

/** Checks the options of a tool. Throws `OptionsInvalid`. */
export const actingOf = (of: string, options: FileToolOptions): Acting => {
  const problem = OptionsInvalid.problemOf(of, options, { keys: optionKeys })
  if (problem !== undefined) throw problem
  const { root, rules } = options
  if (root === undefined) {
    if (rules !== undefined) throw rulesWithoutRoot(of)
    return { sandbox: true, placeOf: sandboxPlace }
  }
  // Throws for invalid rules now, before the first call.
  if (rules !== undefined) PathGuard.make(rules)
  const { write = [], ...rest } = rules ?? {}
  const all = { ...rest, write: [root, ...write] }
  let place: Effect.Effect<Place> | undefined
  return { sandbox: false, placeOf: () => (place ??= machinePlace(all, root)) }
}

/** The rules of a sandbox are those of its provider: rules that would have no effect are refused. */
const rulesWithoutRoot = (of: string): OptionsInvalid.OptionsInvalid =>
  new OptionsInvalid.OptionsInvalid({
    of,
    misfits: [
      {
        place: `the options of ${of}`,
        key: "rules",
        problem: `"rules" needs "root": the rules of a sandbox are an option of its provider`
      }
    ]
  })

const natural = {
  takes: "a whole number from 1",
  is: (value: unknown) => Number.isSafeInteger(value) && Number(value) >= 1
}

const optionKeys = {
  root: {
    takes: "the path of a directory",
    is: (value: unknown) => typeof value === "string" && value !== "" && !value.includes("\0")
  },
  rules: "anything",
  maxFileSize: natural,
  searchTimeout: {
    takes: 'a duration, such as "5 seconds" or 5000',
    is: (value: unknown) =>
      Option.exists(Duration.fromInput(value as Duration.Input), (found) => Duration.toMillis(found) > 0)
  }
} as const satisfies Record<keyof FileToolOptions, unknown>
