/**
 * Rules of a program about commands, by their words.
 */
import { type Parser, readTree, type SimpleCommand, type Token, unparsable } from "./shellTree.ts"

/** A rule about commands with these words. */
export interface Rule {
  readonly decision: "allow" | "ask" | "deny"
  /**
   * The words of the command, which are compared exactly. `*` stands for any one word, and `**` at the end for any number of words. A rule
   * that asks or denies also covers a program by its path, such as `/bin/rm`, without case.
   */
  readonly argv: readonly [program: string, ...args: ReadonlyArray<string>]
  /** For the person who decides, and for the model. Default: the words of the rule. */
  readonly reason?: string
}

/** Whether a rule covers a command. A word that is not known is covered by `*` and `**` alone. */
export const matches = ({ argv, decision }: Rule, tokens: ReadonlyArray<Token>): boolean => {
  const isOpen = argv.length > 1 && argv[argv.length - 1] === "**"
  const exact = isOpen ? argv.slice(0, -1) : argv
  if (isOpen ? tokens.length < exact.length : tokens.length !== exact.length) return false
  // An allowance needs to know every word.
  if (decision === "allow" && tokens.some(({ value }) => value === undefined)) return false
  return exact.every((word, at) => {
    const value = tokens[at]?.value
    if (word === "*") return at > 0 || value !== undefined
    if (value === undefined) return false
    return word === value || (at === 0 && decision !== "allow" && programOf(word) === programOf(value))
  })
}

/** The name of a program without its directory and case. */
const programOf = (word: string): string => word.slice(word.lastIndexOf("/") + 1).toLowerCase()

/** Programs and builtins that run a command which is given to them as words or as a text. */
const wrappers = new Set(
  (
    "sudo doas su runuser pkexec run0 env nice ionice nohup timeout setsid stdbuf xargs parallel time command builtin exec eval " +
    "sh bash dash zsh ksh mksh ash fish busybox toybox flock script watch strace ltrace unshare nsenter chroot setpriv chrt taskset " +
    "prlimit systemd-run dbus-run-session ssh trap source . find fd fdfind rlwrap unbuffer expect firejail bwrap proot fakeroot " +
    "docker podman kubectl npx bunx pnpx coproc entr caffeinate cmd powershell pwsh"
  ).split(" ")
)

const maxNesting = 3

/**
 * The commands that a command may run: itself, and for a program that runs others, each suffix of its words and the commands in each of its
 * words. It may find too many, about which a rule then asks or which it denies.
 */
export const candidates = (
  parser: Parser,
  command: SimpleCommand,
  nesting = 0
): ReadonlyArray<ReadonlyArray<Token>> => {
  const { tokens } = command
  const [first, ...args] = tokens
  const program = first?.value
  if (program !== undefined && !wrappers.has(programOf(program))) return [tokens]
  const texts = nesting < maxNesting ? args.flatMap(({ value }) => inner(value)) : []
  return [
    tokens,
    ...args.map((_, at) => args.slice(at)),
    ...texts.flatMap((text) =>
      unparsable(text) === undefined
        ? readTree(parser, text).commands.flatMap((each) => candidates(parser, each, nesting + 1))
        : []
    )
  ]
}

/** The texts of a word that a shell may read as a command, such as that of `-c`, of `--command=…`, or of an assignment. */
const inner = (value: string | undefined): ReadonlyArray<string> => {
  if (value === undefined || !/[\s;|&]/.test(value)) return []
  const assigned = value.indexOf("=")
  return assigned === -1 ? [value] : [value, value.slice(assigned + 1)]
}
