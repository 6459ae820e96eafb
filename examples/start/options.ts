/**
 * The options of `npm start -- …`. Invalid options are refused with an error.
 */
import { parseArgs } from "node:util"
import { approve, type Decision, deny } from "@fermata/node"

/** The decision of a flag. */
export type Answer = ReturnType<typeof approve> & { readonly _tag: Decision.Decision["_tag"] }

export interface Options {
  /** Omitted: ask at the terminal. */
  readonly answer: Answer | undefined
  readonly keep: boolean
  readonly help: boolean
}

export class BadOption extends Error {}

export const usage = `npm start                        asks at a terminal; without one it approves
npm start -- --approve           makes the edit and runs the command as they were asked for
npm start -- --edit '{…}'        makes the edit with these arguments instead, such as
                                 '{"path":"notes.md","edits":[{"oldText":"# Notes\\n","newText":"# Notes\\n\\n- Hello\\n"}]}'
npm start -- --deny "why"        does not make it; the model reads why
             --keep              leaves the directory behind`

export const parseOptions = (args: ReadonlyArray<string>): Options => {
  const { approve: asAsked, deny: why, edit, help, keep } = parse(args)
  if ([asAsked, why !== undefined, edit !== undefined].filter(Boolean).length > 1) {
    throw new BadOption("Pass one of --approve, --deny and --edit: a call is decided once.")
  }
  const answer = asAsked
    ? approve()
    : why !== undefined
      ? deny(why)
      : edit !== undefined
        ? approve({ arguments: parseArguments(edit) })
        : undefined
  return { answer, keep, help }
}

const parse = (args: ReadonlyArray<string>) => {
  try {
    return parseArgs({
      args: [...args],
      options: {
        approve: { type: "boolean", default: false },
        deny: { type: "string" },
        edit: { type: "string" },
        keep: { type: "boolean", default: false },
        help: { type: "boolean", short: "h", default: false }
      }
    }).values
  } catch (error) {
    throw new BadOption(error instanceof Error ? (error.message.split("\n")[0] ?? "") : String(error))
  }
}

/** The edited arguments. Fermata checks them against the tool's schema. */
export const parseArguments = (text: string) => {
  try {
    return JSON.parse(text)
  } catch {
    throw new BadOption(`The edited arguments are not JSON: ${text}`)
  }
}
