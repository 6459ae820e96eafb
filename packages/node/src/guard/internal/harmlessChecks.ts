/**
 * Harmless commands whose words need more than a list of flags.
 */
import type { Checked, Spec } from "./harmlessSpec.ts"

type Check = (
  args: ReadonlyArray<string>,
  checkWords: (spec: Spec, words: ReadonlyArray<string>) => Checked
) => Checked

const problem = (text: string): Checked => ({ problem: text })
const unknownOption = (option: string) => problem(`its option ${option} is not known to be harmless`)

const none: Checked = { paths: [] }

/** Tests of `find` without and with a value. The others delete, write, run a program, follow links, or read a file. */
const findTests = new Set(
  "-print -print0 -prune -empty -depth -mount -xdev -daystart -true -false -quit -ls -readable -writable -executable -nouser -nogroup -not -a -and -o -or ! ( )".split(
    " "
  )
)
const findValues = new Set(
  "-name -iname -path -ipath -wholename -iwholename -regex -iregex -regextype -type -xtype -size -mtime -mmin -atime -amin -ctime -cmin -maxdepth -mindepth -perm -user -group -uid -gid -links -inum -printf".split(
    " "
  )
)

const find: Check = (args) => {
  const start = args.findIndex((arg) => arg.startsWith("-") || arg === "(" || arg === "!")
  const tests = start === -1 ? [] : args.slice(start)
  for (let at = 0; at < tests.length; at += 1) {
    const test = tests[at] ?? ""
    if (findValues.has(test)) at += 1
    else if (!findTests.has(test)) return unknownOption(test)
  }
  const paths = start === -1 ? args : args.slice(0, start)
  return { paths }
}

/** One command of a script that only prints, counts, substitutes or ends. */
const sedCommand =
  /^(?:(?:\d+|\$|\/[^/\\\n;[]*\/)(?:,(?:\d+|\$|\+\d+|\/[^/\\\n;[]*\/))?)?!?(?:[pdq=]|s\/[^/\\\n;[]*\/[^/\\\n;]*\/[gpiI\d]{0,4})?$/

const sedFlags = new Set(["-n", "-E", "-r", "-s", "-u", "-z", "--quiet", "--silent", "--regexp-extended"])

const sed: Check = (args, checkWords) => {
  const scripts: Array<string> = []
  const operands: Array<string> = []
  for (let at = 0; at < args.length; at += 1) {
    const arg = args[at] ?? ""
    if (arg === "-e" || arg === "--expression") {
      at += 1
      scripts.push(args[at] ?? "")
    } else if (!arg.startsWith("-") || arg === "-") operands.push(arg)
    else if (!sedFlags.has(arg)) return unknownOption(arg)
  }
  const files = scripts.length === 0 ? operands.slice(1) : operands
  const script = scripts.length === 0 ? operands.slice(0, 1) : scripts
  const commands = script.flatMap((each) => each.split(";"))
  return commands.length > 0 && commands.every((each) => sedCommand.test(each.trim()))
    ? checkWords({ operands: "content" }, files)
    : problem("its script is not known to be harmless")
}

const date: Check = (args) => {
  for (let at = 0; at < args.length; at += 1) {
    const arg = args[at] ?? ""
    if (arg === "-d") at += 1
    else if (!/^(\+|-u$|-R$|-I[a-z]*$|--utc$|--iso-8601(=|$)|--rfc-3339=|--date=)/.test(arg))
      return problem("it can set the clock")
  }
  return none
}

const command: Check = (args) =>
  (args[0] === "-v" || args[0] === "-V") && args.slice(1).every((arg) => !arg.startsWith("-"))
    ? none
    : problem("it runs another command")

/** Tests of files and texts. `-v`, and in some shells `-eq`, evaluate an expression. */
const test: Check = (args) => {
  const option = args.find((arg) => /^-[a-z]/i.test(arg) && !/^-[abcdefghLnoprsSuwxz]$/.test(arg))
  return option === undefined ? none : unknownOption(option)
}

const bracket: Check = (args, checkWords) =>
  args[args.length - 1] === "]" ? test(args.slice(0, -1), checkWords) : problem("it is not a test")

/** A script that prints fields of lines, and has neither a redirection nor a pipe nor a call. */
const awkScript =
  /^(?:NR ?[=<>]=? ?\d+|\/[^/\\\n]*\/)? ?(?:\{ ?print(?: ?(?:\$(?:\d+|NF)|NR|NF|"[^"\\\n]*")(?: ?,)?)* ?\})?$/

const awk: Check = (args, checkWords) => {
  const separated = args[0] === "-F" ? 2 : args[0]?.startsWith("-F") ? 1 : 0
  const [script = "", ...files] = args.slice(separated)
  return script !== "" && awkScript.test(script) && files.every((file) => !file.startsWith("-"))
    ? checkWords({ operands: "content" }, files)
    : problem("its script is not known to be harmless")
}

/** A path in a value. Other filters can show the environment. */
const jqFilter = /^\.\w*(?:\.\w+|\[\d*\])*$/

const jq: Check = (args, checkWords) => {
  const [flags, rest] = /^-[rcMCSesj]+$/.test(args[0] ?? "") ? [args.slice(0, 1), args.slice(1)] : [[], args]
  const [filter = "", ...files] = rest
  return jqFilter.test(filter)
    ? checkWords({ short: "rcMCSesj", operands: "content" }, [...flags, ...files])
    : problem("its filter is not known to be harmless")
}

/** Other forms can show the environment of processes. */
const ps: Check = (args) =>
  args.length === 0 || (args.length === 1 && ["aux", "-e", "-ef", "-A", "-f"].includes(args[0] ?? ""))
    ? none
    : problem("it can show more than the processes")

/** `%n` sets a variable, and some shells evaluate numbers. */
const printf: Check = (args) =>
  args[0]?.startsWith("-") || args.some((arg) => /%[^a-z%]*[hlLjztq]*n|[`$[]/i.test(arg))
    ? problem("it can set a variable")
    : none

/** Flags that most commands of git share: what is shown of commits and their differences. */
const shown: Spec = {
  short: "pusvwbaziEFPtqcmrMC",
  valued: "nUSGL",
  long: "oneline graph decorate no-decorate all branches tags remotes stat numstat shortstat summary patch no-patch patch-with-stat name-only name-status raw abbrev abbrev-commit no-abbrev-commit no-color color word-diff color-words unified ignore-all-space ignore-space-change ignore-space-at-eol ignore-blank-lines minimal patience histogram diff-algorithm find-renames find-copies no-renames cached staged merge-base first-parent merges no-merges reverse date-order topo-order author-date-order since until after before author committer grep all-match invert-grep regexp-ignore-case extended-regexp fixed-strings max-count skip follow full-history no-ext-diff no-textconv date relative-date pretty format diff-filter compact-summary dirstat full-index left-right cherry-pick cherry-mark left-only right-only count show-pulls simplify-merges boundary parents children pickaxe-regex pickaxe-all function-context inter-hunk-context check relative exit-code quiet text not glob exclude source no-walk ahead-behind no-prefix",
  isCounted: true,
  operands: "content"
}

const gitCommands: Readonly<Record<string, Spec>> = {
  status: {
    short: "sbvuz",
    long: "short branch porcelain long verbose untracked-files ignored ahead-behind show-stash column no-column renames no-renames null",
    operands: "names"
  },
  log: shown,
  show: shown,
  diff: shown,
  "rev-list": shown,
  shortlog: { short: "sne", long: "numbered summary email all since until no-merges", operands: "content" },
  "rev-parse": {
    short: "q",
    long: "abbrev-ref verify short show-toplevel git-dir show-prefix show-cdup is-inside-work-tree is-bare-repository symbolic-full-name absolute-git-dir git-common-dir quiet branches tags remotes all",
    operands: "names"
  },
  "ls-files": {
    short: "cdmoiskuvtz",
    long: "cached deleted modified others ignored stage unmerged exclude-standard error-unmatch full-name abbrev",
    operands: "names"
  },
  "ls-tree": {
    short: "drtlz",
    long: "name-only name-status full-name full-tree abbrev long",
    operands: "names"
  },
  "merge-base": { short: "a", long: "all is-ancestor fork-point octopus", operands: "names" },
  "name-rev": { long: "name-only tags refs always", operands: "names" },
  "show-ref": {
    short: "dhsq",
    long: "head heads tags dereference hash verify quiet abbrev",
    operands: "names"
  },
  "for-each-ref": { long: "count sort format contains merged no-merged points-at", operands: "names" },
  describe: {
    long: "tags all long always dirty abbrev exact-match candidates match exclude first-parent contains",
    operands: "names"
  },
  blame: {
    short: "lstewfnpMC",
    valued: "L",
    long: "line-porcelain porcelain show-email show-name since root date abbrev",
    operands: "content"
  },
  "cat-file": { short: "epts", operands: "content" },
  grep: {
    short: "aiInlLcvwEFGPoqhHrz",
    valued: "ABCem",
    long: "ignore-case line-number files-with-matches name-only count word-regexp extended-regexp fixed-strings perl-regexp invert-match cached untracked heading break show-function color max-depth context after-context before-context and or not all-match",
    operands: "content",
    patternFlags: "e"
  },
  "diff-tree": shown,
  "diff-index": shown,
  "count-objects": { short: "vH", long: "verbose human-readable", operands: "names" },
  "check-ignore": { short: "vqn", long: "verbose quiet non-matching", operands: "names" }
}

/** Commands of git that list with these words, and change something with others. */
const gitLists: Readonly<Record<string, RegExp>> = {
  branch:
    /^(-[avr]+|-vv|--(list|all|remotes|verbose|show-current|merged|no-merged|contains|sort=.*|format=.*|column|no-color|color))$/,
  tag: /^(-l|--list|-n\d*|--sort=.*|--format=.*|--merged|--no-merged|--contains|--column)$/,
  remote: /^(-v|--verbose)$/,
  stash: /^list$/,
  worktree: /^list$/,
  reflog: /^$/
}

const git: Check = (args, checkWords) => {
  const [name = "", ...rest] = args[0] === "--no-pager" || args[0] === "-P" ? args.slice(1) : args
  if (rest.some((arg) => arg.includes("%G"))) return problem("it runs a program that checks signatures")
  const list = Object.hasOwn(gitLists, name) ? gitLists[name] : undefined
  if (list !== undefined) {
    const isList =
      rest.every((arg) => list.test(arg)) && (rest.length > 0 || (name !== "stash" && name !== "worktree"))
    return isList ? none : problem("it can change the repository")
  }
  const spec = Object.hasOwn(gitCommands, name) ? gitCommands[name] : undefined
  if (spec === undefined) return problem("this command of git is not known to be harmless")
  const checked = checkWords(spec, rest)
  if ("problem" in checked) return checked
  // A path may follow a revision, as in `HEAD:src/index.ts`.
  return {
    paths: checked.paths.flatMap((path) => [path, ...path.split(":").slice(1)]).filter((path) => path !== "")
  }
}

/** The checks by the name of the command. */
export const customChecks: Readonly<Record<string, Check>> = {
  find,
  sed,
  awk,
  jq,
  ps,
  date,
  command,
  test,
  "[": bracket,
  printf,
  git
}
