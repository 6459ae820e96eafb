/**
 * The options of the tools for commands, and their check.
 */
import { OptionsInvalid } from "@fermata/sdk"
import * as Duration from "effect/Duration"
import type { Rule } from "../../../guard/CommandRules.ts"

/** Options of `shellTools`. */
export interface ShellOptions {
  /**
   * Rules by the words of a command; see `CommandRules`. A command that a rule denies fails without asking. A command that a rule asks
   * about needs approval in every sandbox. Default: none.
   */
  readonly rules?: ReadonlyArray<Rule>
  /**
   * The treatment of commands that are not known to only read, in a sandbox with the capability `isolated`. `ask`: they need approval.
   * `run`: they run without approval if the sandbox has no network. `runWithNetwork`: they run without approval even if it has one, over
   * which they can send data. Commands that only read always run without approval there. Default: `ask`.
   */
  readonly confined?: "ask" | "run" | "runWithNetwork"
  /**
   * The treatment of commands in a sandbox without isolation. `ask`: each command needs approval. `rules`: a command whose parts `rules`
   * allow runs without approval, and can change everything that the program can. Default: `ask`.
   */
  readonly unconfined?: "ask" | "rules"
  /** The timeout of a command whose call names none. Default: 2 minutes. */
  readonly timeout?: Duration.Input
  /** The longest timeout that a call may name. Default: 10 minutes, or `timeout` if that is longer. */
  readonly maxTimeout?: Duration.Input
  /**
   * How many characters of a result the model reads: head and tail of each stream. With a store, the rest can be read again with the tool
   * `recall`. Default: 30,000.
   */
  readonly maxResultLength?: number
  /** How many bytes of each stream are kept: the first and the last half. Default: 1,000,000. */
  readonly maxOutputBytes?: number
  /** How many commands of a sandbox may run in the background at once; 0 for none. Default: 8. */
  readonly maxBackground?: number
  /** The program that reads the command, such as `bash`; it has to be in the sandbox. Default: `sh`. */
  readonly shell?: string
  /** The directory in which commands start, relative to the working directory of the sandbox. Default: that directory. */
  readonly cwd?: string
}

/** The options with their defaults. */
export interface Settings extends Required<Omit<ShellOptions, "timeout" | "maxTimeout" | "cwd">> {
  readonly timeoutSeconds: number
  readonly maxTimeoutSeconds: number
  readonly cwd: string | undefined
}

/** Checks options and adds defaults. Throws `OptionsInvalid`. */
export const settingsOf = (of: string, options: ShellOptions): Settings => {
  const problem = OptionsInvalid.problemOf(of, options, { keys: shellKeys })
  if (problem !== undefined) throw problem
  const { cwd, maxTimeout, timeout = "2 minutes", ...rest } = options
  const timeoutSeconds = secondsOf(timeout)
  return {
    rules: [],
    confined: "ask",
    unconfined: "ask",
    maxResultLength: 30_000,
    maxOutputBytes: 1_000_000,
    maxBackground: 8,
    shell: "sh",
    ...rest,
    timeoutSeconds,
    maxTimeoutSeconds: Math.max(timeoutSeconds, maxTimeout === undefined ? 600 : secondsOf(maxTimeout)),
    cwd
  }
}

const secondsOf = (input: Duration.Input): number =>
  Math.max(1, Math.ceil(Duration.toSeconds(Duration.fromInputUnsafe(input))))

/** A week: a longer time is no limit, and Node has no such timer. */
const longestSeconds = 7 * 24 * 3600

const isTime = (value: unknown): boolean => {
  try {
    const seconds = Duration.toSeconds(Duration.fromInputUnsafe(value as Duration.Input))
    return seconds > 0 && seconds <= longestSeconds
  } catch {
    return false
  }
}

const time = { takes: 'a time above 0 and of at most a week, such as "2 minutes"', is: isTime }
const count = (least: number) => ({
  takes: `a whole number from ${least}`,
  is: (value: unknown) => Number.isSafeInteger(value) && Number(value) >= least
})
const oneOf = (...words: ReadonlyArray<string>) => ({
  takes: words.map((word) => `"${word}"`).join(" or "),
  is: (value: unknown) => words.includes(value as string)
})

const isRule = (value: unknown): boolean => {
  if (typeof value !== "object" || value === null) return false
  const { argv, decision, reason } = value as Partial<Record<keyof Rule, unknown>>
  return (
    ["allow", "ask", "deny"].includes(decision as string) &&
    Array.isArray(argv) &&
    argv.length > 0 &&
    argv.every((word) => typeof word === "string") &&
    argv[0] !== "" &&
    (reason === undefined || typeof reason === "string") &&
    Object.keys(value).every((key) => ["argv", "decision", "reason"].includes(key))
  )
}

const shellKeys = {
  rules: {
    takes: 'a list of rules, such as { decision: "deny", argv: ["git", "push", "**"] }',
    is: (value: unknown) => Array.isArray(value) && value.every(isRule)
  },
  confined: oneOf("ask", "run", "runWithNetwork"),
  unconfined: oneOf("ask", "rules"),
  timeout: time,
  maxTimeout: time,
  maxResultLength: count(1000),
  maxOutputBytes: count(2),
  maxBackground: count(0),
  shell: {
    takes: "the name or the absolute path of a program",
    is: (value: unknown) => typeof value === "string" && /^[\w./+-]+$/.test(value) && !value.startsWith("-")
  },
  cwd: {
    takes: "the path of a directory",
    is: (value: unknown) => typeof value === "string" && value !== "" && !value.includes("\0")
  }
} satisfies Record<keyof ShellOptions, unknown>
