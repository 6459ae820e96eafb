/**
 * Commands that read, and neither change anything, nor run another program, nor use the network: their flags as data.
 *
 * A flag that is not in the list makes a command ask. Left out are flags that write (`sort -o`), run a program (`rg --pre`), read a list of
 * files or patterns from a file, follow links out of the workspace, wait, or show credentials.
 */
import { customChecks } from "./harmlessChecks.ts"
import type { Checked, Spec } from "./harmlessSpec.ts"
import type { Token } from "./shellTree.ts"

const specs: Readonly<Record<string, Spec>> = {
  ls: { anyFlag: true, operands: "names" },
  pwd: { anyFlag: true, operands: "text", maxOperands: 0 },
  echo: { anyFlag: true, operands: "text" },
  true: { anyFlag: true, operands: "text" },
  false: { anyFlag: true, operands: "text" },
  ":": { anyFlag: true, operands: "text" },
  cat: {
    anyName: true,
    short: "AbeEnstTuv",
    long: "show-all number number-nonblank squeeze-blank show-ends show-tabs show-nonprinting",
    operands: "content"
  },
  tac: { operands: "content" },
  rev: { operands: "content" },
  nl: { anyName: true, short: "p", valued: "bdfhilnsvw", operands: "content" },
  head: {
    anyName: true,
    short: "qvz",
    valued: "nc",
    long: "quiet verbose lines bytes",
    isCounted: true,
    operands: "content"
  },
  tail: {
    anyName: true,
    short: "qvz",
    valued: "nc",
    long: "quiet verbose lines bytes",
    isCounted: true,
    operands: "content"
  },
  wc: { anyName: true, short: "clmwL", long: "bytes chars lines words max-line-length", operands: "names" },
  sort: {
    short: "bdfghiMnrVcCmsuz",
    valued: "kt",
    long: "reverse numeric-sort general-numeric-sort human-numeric-sort version-sort month-sort unique ignore-case ignore-leading-blanks dictionary-order stable check key field-separator zero-terminated",
    operands: "content"
  },
  uniq: {
    short: "cdDiuz",
    valued: "fsw",
    long: "count repeated unique ignore-case",
    operands: "content",
    maxOperands: 1
  },
  cut: {
    short: "sz",
    valued: "bcdf",
    long: "bytes characters delimiter fields only-delimited complement output-delimiter zero-terminated",
    operands: "content"
  },
  tr: { short: "cCdst", long: "complement delete squeeze-repeats truncate-set1", operands: "text" },
  fold: { short: "bs", valued: "w", isCounted: true, operands: "content" },
  fmt: { short: "cstu", valued: "w", operands: "content" },
  expand: { short: "i", valued: "t", operands: "content" },
  unexpand: { short: "a", valued: "t", operands: "content" },
  paste: { short: "sz", valued: "d", operands: "content" },
  column: { short: "txen", valued: "csoN", operands: "content" },
  comm: { short: "123z", long: "check-order nocheck-order", operands: "content" },
  join: { short: "i", valued: "a12ejtv", operands: "content" },
  diff: {
    short: "abBcdeEiNnqrsTtuwy",
    valued: "UCWxI",
    long: "unified context brief recursive report-identical-files ignore-case ignore-all-space ignore-space-change ignore-blank-lines side-by-side new-file text color suppress-common-lines width minimal",
    operands: "content"
  },
  cmp: { short: "bls", valued: "n", operands: "content" },
  grep: grepSpec(),
  egrep: grepSpec(),
  fgrep: grepSpec(),
  rg: {
    short: "acFHhIiNlnopqSsUVvwx0",
    valued: "ABCEegmjrtTMd",
    long: "files count count-matches files-with-matches files-without-match ignore-case smart-case case-sensitive line-number no-line-number fixed-strings word-regexp line-regexp invert-match json stats heading no-heading with-filename no-filename multiline multiline-dotall pcre2 only-matching vimgrep column trim no-messages type-list version help null passthru quiet text color colors sort sortr max-depth max-count max-columns max-filesize context before-context after-context type type-not glob iglob regexp replace threads",
    operands: "content",
    patternFlags: "e files type-list regexp version"
  },
  basename: { short: "az", valued: "s", long: "suffix multiple", operands: "text" },
  dirname: { short: "z", operands: "text" },
  realpath: {
    short: "emsqzLP",
    long: "no-symlinks quiet canonicalize-existing canonicalize-missing",
    operands: "names"
  },
  readlink: { short: "efmnqsvz", long: "canonicalize no-newline", operands: "names" },
  stat: {
    anyName: true,
    short: "Ltfx",
    valued: "c",
    long: "format printf terse dereference file-system",
    operands: "names"
  },
  file: { anyName: true, short: "biLNr", long: "brief mime mime-type mime-encoding", operands: "names" },
  du: {
    anyName: true,
    short: "abchHkmsSx0",
    valued: "dB",
    long: "summarize human-readable all total apparent-size bytes max-depth block-size one-file-system exclude",
    operands: "names"
  },
  df: {
    short: "ahHiklmPT",
    long: "human-readable all inodes local portability print-type total",
    operands: "names"
  },
  tree: {
    short: "adfhigpsuDFrtnCQvc",
    valued: "LPI",
    long: "dirsfirst noreport gitignore prune du si",
    operands: "names"
  },
  md5sum: { anyName: true, short: "bt", operands: "names" },
  sha1sum: { anyName: true, short: "bt", operands: "names" },
  sha256sum: { anyName: true, short: "bt", operands: "names" },
  sha512sum: { anyName: true, short: "bt", operands: "names" },
  cksum: { operands: "names" },
  which: { short: "a", long: "all", operands: "text" },
  type: { short: "afpPt", operands: "text" },
  whoami: { operands: "text", maxOperands: 0 },
  id: { short: "Ggnruz", long: "group groups name real user", operands: "text" },
  groups: { operands: "text" },
  logname: { operands: "text", maxOperands: 0 },
  hostname: { short: "fisId", operands: "text", maxOperands: 0 },
  uname: { anyFlag: true, operands: "text", maxOperands: 0 },
  free: { short: "bkmght", operands: "text", maxOperands: 0 },
  lscpu: { operands: "text", maxOperands: 0 },
  arch: { operands: "text", maxOperands: 0 },
  nproc: { long: "all ignore", operands: "text", maxOperands: 0 },
  uptime: { short: "ps", operands: "text", maxOperands: 0 },
  tty: { short: "s", operands: "text", maxOperands: 0 },
  seq: { short: "w", valued: "sf", operands: "text" },
  strings: { short: "a", valued: "nt", operands: "content" },
  base64: { short: "di", valued: "w", long: "decode wrap ignore-garbage", operands: "content" }
}

function grepSpec(): Spec {
  return {
    short: "acEFGHhiIlLnoPqrsvwxyzZT",
    valued: "ABCem",
    long: "ignore-case no-ignore-case invert-match word-regexp line-regexp count color colour files-without-match files-with-matches max-count only-matching quiet silent no-messages byte-offset with-filename no-filename line-number after-context before-context context text binary-files include exclude exclude-dir recursive extended-regexp fixed-strings basic-regexp perl-regexp regexp null null-data label initial-tab",
    operands: "content",
    anyName: true,
    isCounted: true,
    patternFlags: "e regexp"
  }
}

/** Programs of which only their version is harmless. */
const versions: Readonly<Record<string, ReadonlyArray<string>>> = {
  node: ["--version", "-v"],
  npm: ["--version", "-v"],
  python: ["--version", "-V"],
  python3: ["--version", "-V"],
  ruby: ["--version", "-v"],
  perl: ["--version", "-v"],
  php: ["--version", "-v"],
  java: ["--version", "-version"],
  javac: ["--version", "-version"],
  gcc: ["--version"],
  clang: ["--version"],
  make: ["--version"],
  cmake: ["--version"],
  bash: ["--version"],
  docker: ["--version"],
  deno: ["--version"],
  bun: ["--version"],
  git: ["--version"],
  curl: ["--version"],
  jq: ["--version"],
  rg: ["--version"]
}

/** Variables whose values are no secret. */
const plainVariables = new Set([
  "HOME",
  "PWD",
  "OLDPWD",
  "USER",
  "LOGNAME",
  "SHELL",
  "LANG",
  "TERM",
  "PATH",
  "TMPDIR",
  "HOSTNAME",
  "?",
  "#",
  "$"
])

/** Checks a command whose line is plain. */
export const checkHarmless = (tokens: ReadonlyArray<Token>): Checked => {
  const [first, ...args] = tokens
  const name = first?.value
  if (name === undefined) return { problem: "its program is not known before it runs" }
  const [only] = args
  if (args.length === 1 && Object.hasOwn(versions, name) && versions[name]?.includes(only?.value ?? ""))
    return { paths: [] }
  const custom = Object.hasOwn(customChecks, name) ? customChecks[name] : undefined
  if (custom !== undefined) {
    const values = args.flatMap(({ value }) => value ?? [])
    return values.length === args.length
      ? custom(values, (spec, words) =>
          checkWords(
            spec,
            words.map((value) => ({ source: value, value }))
          )
        )
      : { problem: "an argument is not known before it runs" }
  }
  const spec = Object.hasOwn(specs, name) ? specs[name] : undefined
  return spec === undefined ? { problem: "it is not known to be harmless" } : checkWords(spec, args)
}

const flagProblem = (flag: string): Checked => ({ problem: `its option ${flag} is not known to be harmless` })

/** Checks the words after the program. */
const checkWords = (spec: Spec, args: ReadonlyArray<Token>): Checked => {
  const { anyFlag = false, isCounted = false, maxOperands = Infinity, operands, patternFlags } = spec
  const long = new Set(spec.long?.split(" "))
  const givesPattern = new Set(patternFlags?.split(" "))
  const rest: Array<Token> = []
  let hasPattern = patternFlags === undefined
  let areOptions = true
  for (let at = 0; at < args.length; at += 1) {
    const token = args[at]
    if (token === undefined) continue
    const { value } = token
    if (value === undefined) {
      const [flag = "", given] = cut(token.glob?.startsWith("--") ? token.glob.slice(2) : "")
      if (areOptions && given !== undefined && long.has(flag) && !showsHidden(flag, given)) continue
      const problem = problemOfUnknown(token, spec)
      if (problem !== undefined) return { problem }
      rest.push(token)
      continue
    }
    if (!areOptions || value === "-" || !value.startsWith("-")) {
      rest.push(token)
      continue
    }
    if (value === "--") {
      areOptions = false
      continue
    }
    if (anyFlag || (isCounted && /^-\d+$/.test(value))) continue
    if (value.startsWith("--")) {
      const [flag = "", given] = cut(value.slice(2))
      if (!long.has(flag)) return flagProblem(`--${flag}`)
      if (givesPattern.has(flag)) hasPattern = true
      if (showsHidden(flag, given)) return flagProblem(`--${flag}`)
      // A value in the next word is taken for an operand, whose path is then checked, too.
      continue
    }
    for (let index = 1; index < value.length; index += 1) {
      const flag = value[index] ?? ""
      if (spec.valued?.includes(flag)) {
        const isNext = index === value.length - 1
        if (isNext) at += 1
        const given = isNext ? args[at]?.value : value.slice(index + 1)
        if (given === undefined || showsHidden(flag, given)) return flagProblem(`-${flag}`)
        if (givesPattern.has(flag)) hasPattern = true
        break
      }
      if (!spec.short?.includes(flag)) return flagProblem(`-${flag}`)
    }
  }
  if (rest.length > maxOperands) return { problem: "it has an operand that is not known to be harmless" }
  if (operands === "text") return { paths: [] }
  const paths = hasPattern ? rest : rest.slice(1)
  return {
    paths: paths.flatMap(({ glob, value }) =>
      value === "-" ? [] : (value ?? (glob ?? "").replaceAll(/[*?]/g, "x"))
    )
  }
}

const cut = (text: string): readonly [string, string | undefined] => {
  const at = text.indexOf("=")
  return at === -1 ? [text, undefined] : [text.slice(0, at), text.slice(at + 1)]
}

/** A glob option of ripgrep also shows hidden files, such as those with credentials, unless it excludes or names an ordinary extension. */
const showsHidden = (flag: string, given: string | undefined): boolean =>
  ["g", "glob", "iglob"].includes(flag) && (given === undefined || !ordinaryGlob.test(given))

const extension =
  "(?:tsx?|jsx?|[mc][jt]s|json|md|py|rb|go|rs|java|kt|c|h|cc|cpp|hpp|cs|php|swift|sh|sql|s?css|html|vue|svelte|txt|toml|ya?ml|xml|lock)"
const ordinaryGlob = new RegExp(`^(?:!.*|[\\w*/-]*\\.(?:${extension}|\\{${extension}(?:,${extension})*\\}))$`)

const problemOfUnknown = (
  { glob, variables }: Token,
  { anyFlag = false, anyName = anyFlag, operands }: Spec
): string | undefined => {
  if (variables !== undefined)
    return anyFlag && operands === "text" && variables.every((name) => plainVariables.has(name))
      ? undefined
      : "it shows the value of a variable"
  if (glob === undefined) return "an argument is not known before it runs"
  if (operands === "text") return undefined
  if (/^[*?[-]/.test(glob) && !anyName) return "a name that it finds can be an option"
  // Names of hidden files and of keys do not end in the extension of another file.
  const last = glob.slice(glob.lastIndexOf("/") + 1)
  return operands === "names" || /^[^.[][^[]*\.[a-z\d]+$/i.test(last)
    ? undefined
    : "the files that it finds can hold credentials"
}
