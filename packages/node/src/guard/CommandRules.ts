/**
 * Decides whether a shell command runs without approval. The decision is a hint; only a sandbox is a wall.
 *
 * A shell has too many ways to write a command for any list to be complete, so only a sandbox bounds what a command can do. These rules
 * decide which commands a person is asked about. A command line is allowed if a parser has understood all of it, and each of its simple
 * commands consists of words that every shell leaves unchanged and is known to only read. Every other line asks. Rules of the program
 * allow, ask or deny by the words of a command, anywhere in the line.
 *
 * @since 0.2.0
 */
import { isAbsolute, normalize } from "node:path"
import { Display, OptionsInvalid } from "@fermata/sdk"
import * as Effect from "effect/Effect"
import { candidates, matches, type Rule } from "./internal/commandPatterns.ts"
import { checkHarmless } from "./internal/harmless.ts"
import { comparedNames, covers, parsePattern, type PlacePattern } from "./internal/placePattern.ts"
import { credentialPatterns, examplePatterns } from "./internal/sensitive.ts"
import { type Parser, readTree, type SimpleCommand, type Token, unparsable } from "./internal/shellTree.ts"

export type { Rule } from "./internal/commandPatterns.ts"

/** The decision about a command: it runs (`allow`), a person is asked (`ask`), or it is refused (`deny`). */
export type CommandDecision = "allow" | "ask" | "deny"

/** A simple command of a line. */
export interface JudgedCommand {
  /** Its words: the text that the program receives, or the text as written if that is not known. */
  readonly words: ReadonlyArray<string>
  readonly decision: CommandDecision
  /** Why it asks or is refused. Absent if it is allowed. */
  readonly reason?: string
  /** The rule of the program that decided about it. Absent if none did. */
  readonly rule?: Rule
}

/** The decision about a line. */
export interface Classification {
  readonly decision: CommandDecision
  /** A sentence for a person and for the model: why the line asks or is refused, or that it only reads. */
  readonly reason: string
  /** The commands that were found, also in substitutions. Empty if the line was not parsed. */
  readonly commands: ReadonlyArray<JudgedCommand>
}

/** Options of {@link classify}. */
export interface Options {
  /** Rules of the program. Rules that deny take precedence over rules that ask, and these over rules that allow. Default: none. */
  readonly rules?: ReadonlyArray<Rule>
  /**
   * Whether a harmless command may read a path without a question. A path can have `x` in the place of `*` and `?`. Default: relative paths
   * that do not lead upwards, except places with credentials. With a `PathGuard`:
   * `(path) => Effect.map(guard.judge(path, "read"), ({ decision }) => decision === "allow")`.
   */
  readonly mayRead?: (path: string) => Effect.Effect<boolean>
}

/**
 * Decides whether a command line runs, asks or is refused.
 *
 * **Details**
 *
 * The strictest decision about a simple command is that of the line. A rule that denies or asks covers a command anywhere in the line: in a
 * substitution, in a compound command, or as an argument of a known program that runs it, such as `sudo`, `xargs` or `sh -c`. A rule that
 * allows covers a command whose words are all known, in a line of sequences and pipelines alone. A line of more than 10,000 characters, or
 * with too many commands or nested parts, is not parsed: it asks, even if a rule would deny a part of it.
 *
 * **Example** (A rule that denies)
 *
 * ```ts run
 * import { CommandRules } from "@fermata/node"
 * import { Effect } from "effect"
 *
 * const rules = [{ decision: "deny", argv: ["git", "push", "**"] }] as const
 * const decide = (line: string) => Effect.runPromise(CommandRules.classify(line, { rules }))
 *
 * console.log((await decide("git status && git log -5")).decision) // allow
 * console.log((await decide("npm test")).decision) // ask
 * console.log((await decide("true; sudo git push --force")).decision) // deny
 * ```
 *
 * **Errors**
 *
 * Dies with `OptionsInvalid` if an option is unknown or has a wrong value.
 *
 * @category constructors
 * @since 0.2.0
 */
export const classify = Effect.fn("CommandRules.classify")(function* (line: string, options: Options = {}) {
  const problem = OptionsInvalid.problemOf("CommandRules.classify", options, shape)
  if (problem !== undefined) return yield* Effect.die(problem)
  const { mayRead = isOrdinary, rules = [] } = options
  const hidden = hiddenIn(line) ?? unparsable(line)
  if (hidden !== undefined) return asks(hidden)
  const parser: Parser = yield* Effect.promise(() => import("unbash"))
  const tree = readTree(parser, line)
  const commands: Array<JudgedCommand> = []
  for (const command of tree.commands)
    commands.push(yield* judge(command, tree.problem === undefined, { parser, rules, mayRead }))
  const denied = commands.find(({ decision }) => decision === "deny")
  if (denied !== undefined) return { decision: "deny", reason: sentenceOf(denied), commands } as const
  if (tree.problem !== undefined) return asks(tree.problem, commands)
  const asked = commands.find(({ decision }) => decision === "ask")
  if (asked !== undefined) return { decision: "ask", reason: sentenceOf(asked), commands } as const
  if (commands.length === 0) return asks("it has no command")
  return { decision: "allow", reason: "Every command in it is known to only read.", commands } as const
})

const asks = (problem: string, commands: ReadonlyArray<JudgedCommand> = []): Classification => ({
  decision: "ask",
  reason: `The command line asks: ${problem}.`,
  commands
})

const sentenceOf = ({ decision, reason, words }: JudgedCommand): string =>
  Display.sentence`The command "${words[0]}" ${decision === "deny" ? "is refused" : "asks"}: ${reason}.`

const judge = Effect.fnUntraced(function* (
  command: SimpleCommand,
  isPlain: boolean,
  { mayRead, parser, rules }: { readonly parser: Parser } & Required<Options>
) {
  const words = command.tokens.map(({ source, value }) => value ?? source)
  const found = rules.length === 0 ? [] : candidates(parser, command)
  const covering = (decision: CommandDecision, all: ReadonlyArray<ReadonlyArray<Token>>) =>
    rules.find((rule) => rule.decision === decision && all.some((tokens) => matches(rule, tokens)))
  for (const decision of ["deny", "ask"] as const) {
    const rule = covering(decision, found)
    if (rule !== undefined)
      return { words, decision, reason: rule.reason ?? `a rule covers ${rule.argv.join(" ")}`, rule }
  }
  const allowing = isPlain ? covering("allow", [command.tokens]) : undefined
  if (allowing !== undefined) return { words, decision: "allow", rule: allowing } as const
  const checked = checkHarmless(command.tokens)
  if ("problem" in checked) return { words, decision: "ask", reason: checked.problem } as const
  for (const path of checked.paths)
    if (!(yield* mayRead(path)))
      return {
        words,
        decision: "ask",
        reason: "it reads a path outside of the workspace, or one with credentials"
      } as const
  return { words, decision: "allow" } as const
})

/** Finds characters that are not visible, or that shells interpret in different ways. */
const hiddenIn = (line: string): string | undefined =>
  Display.text(line) === line && !/[\r\u0085\u00A0\u202F\u3000]/.test(line)
    ? undefined
    : "it has characters that are not visible"

/**
 * Shows a command line to a person exactly: control characters, direction marks and invisible characters are escaped. A line of more than
 * `maxLength` characters (20,000 by default) is shown without its middle, with the number of missing characters in its place.
 *
 * **Example** (A hidden end)
 *
 * ```ts run
 * import { CommandRules } from "@fermata/node"
 *
 * console.log(CommandRules.describe("echo done\r\u202e")) // echo done\r\u{202e}
 * ```
 *
 * @category formatting
 * @since 0.2.0
 */
export const describe = (line: string, options: { readonly maxLength?: number } = {}): string => {
  const { maxLength = 20_000 } = options
  // `Display.text` makes one line break of `\r\n`, which is not what a shell does.
  const shown = Display.text(line.replaceAll("\r", "\\r"))
  if (shown.length <= maxLength) return shown
  const half = Math.max(1, Math.floor(maxLength / 2))
  const [start, end] = [whole(shown.slice(0, half)), whole(shown.slice(-half))]
  const missing = shown.length - start.length - end.length
  return `${start}\n[${missing} of ${shown.length} characters are not shown here]\n${end}`
}

/** Without halves of surrogate pairs at its ends. */
const whole = (text: string): string => text.replace(/^[\uDC00-\uDFFF]|[\uD800-\uDBFF]$/g, "")

let places:
  | { readonly of: ReadonlyArray<PlacePattern>; readonly except: ReadonlyArray<PlacePattern> }
  | undefined

const isOrdinary = (path: string): Effect.Effect<boolean> =>
  Effect.sync(() => {
    if (isAbsolute(path) || path.startsWith("~") || /^\.\.([/\\]|$)/.test(normalize(path))) return false
    places ??= {
      of: credentialPatterns.map((pattern) => parsePattern(pattern)),
      except: examplePatterns.map((pattern) => parsePattern(pattern))
    }
    const names = comparedNames(path)
    const isCovered = (patterns: ReadonlyArray<PlacePattern>) =>
      patterns.some((pattern) => covers(pattern, names))
    return !isCovered(places.of) || isCovered(places.except)
  })

const isWord = (value: unknown) => typeof value === "string"

const shape: OptionsInvalid.Shape = {
  keys: {
    rules: {
      each: {
        demanded: true,
        keys: {
          decision: {
            takes: '"allow", "ask" or "deny"',
            is: (value) => value === "allow" || value === "ask" || value === "deny",
            required: true
          },
          argv: {
            takes: "a list of words, of which the first is a program",
            is: (value) => Array.isArray(value) && value.length > 0 && value.every(isWord) && value[0] !== "",
            required: true
          },
          reason: { takes: "a text", is: isWord }
        }
      }
    },
    mayRead: { takes: "a function", is: (value) => typeof value === "function" }
  }
}
