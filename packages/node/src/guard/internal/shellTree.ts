/**
 * The simple commands of a shell command line, and whether anything in it is more than these.
 *
 * The parser is tolerant and follows bash. A line is therefore `plain` only if its tree has nothing but sequences and pipelines of simple
 * commands whose words mean the same in every shell. Everything else is still searched for commands, for the rules that refuse some.
 */
import type { Command, ParsedScript, Redirection, SyntaxNode, Word, WordPart } from "unbash"

/** A word of a command. */
export interface Token {
  /** The text in the line. */
  readonly source: string
  /** The text that the command receives; `undefined` if a shell could change it. */
  readonly value: string | undefined
  /** A word with `*`, `?` or `[…]`, which becomes the names that it matches. */
  readonly glob?: string
  /** The variables in a word that consists of these and of literal text. */
  readonly variables?: ReadonlyArray<string>
}

/** A simple command, also one inside of a substitution or a compound command. */
export interface SimpleCommand {
  readonly tokens: ReadonlyArray<Token>
}

export interface ShellTree {
  readonly commands: ReadonlyArray<SimpleCommand>
  /** Why the line is not plain. */
  readonly problem: string | undefined
}

/** The functions of the parser, which is loaded when a command is judged for the first time. */
export interface Parser {
  readonly parse: (source: string) => ParsedScript
  readonly forEachChild: (node: SyntaxNode, visit: (child: SyntaxNode) => void) => void
}

const maxLength = 10_000
const maxSeparators = 500
/** The parser takes quadratic time for nested substitutions. */
const maxOpenings = 200
const maxDepth = 100

/** The reason why a line is not parsed: it is too long or too complex. `undefined` for a line that may be parsed. */
export const unparsable = (line: string): string | undefined => {
  if (line.length > maxLength) return "it is too long to be judged"
  let openings = 0
  let separators = 0
  for (const character of line) {
    if ("({[`<".includes(character)) openings += 1
    if (";|&\n".includes(character)) separators += 1
  }
  if (separators > maxSeparators) return "it has too many commands to be judged"
  return openings > maxOpenings ? "it is too deep to be judged" : undefined
}

/** Reads the commands of a line that `unparsable` accepts. A line that the parser fails for has a `problem`. */
export const readTree = (parser: Parser, line: string): ShellTree => {
  try {
    return treeOf(parser, line)
  } catch {
    return { commands: [], problem: "it cannot be parsed" }
  }
}

const treeOf = ({ forEachChild, parse }: Parser, line: string): ShellTree => {
  const commands: Array<SimpleCommand> = []
  const words: Array<Word> = []
  let problem: string | undefined
  const pending: Array<{ readonly node: SyntaxNode; readonly depth: number; readonly source: string }> = [
    { node: parse(line), depth: 0, source: line }
  ]
  for (let next = pending.pop(); next !== undefined; next = pending.pop()) {
    const { depth, node } = next
    const source = node.type === "Script" ? (node.source ?? next.source) : next.source
    problem ??= problemOf(node, depth)
    if (depth > maxDepth) continue
    if (node.type === "Word") words.push(node)
    if (node.type === "Command") commands.push(simpleCommand(node, source))
    const children: typeof pending = []
    forEachChild(node, (child) => children.push({ node: child, depth: depth + 1, source }))
    pending.push(...children.reverse())
  }
  return { commands, problem: problem ?? (hasComment(line, words) ? "it has a comment" : undefined) }
}

/** A shell that a person uses may take a comment for words. The words are those of a plain line, in order. */
const hasComment = (line: string, words: ReadonlyArray<Word>): boolean => {
  let at = 0
  for (const { end, pos } of words) {
    if (line.slice(at, pos).includes("#")) return true
    at = Math.max(at, end)
  }
  return line.slice(at).includes("#")
}

/** The nodes of which a plain line consists. The others are compound commands, expansions, functions and the like. */
const plainNodes: ReadonlySet<SyntaxNode["type"]> = new Set<SyntaxNode["type"]>([
  "Script",
  "Statement",
  "AndOr",
  "Pipeline",
  "Negation",
  "Time",
  "Command",
  "Word",
  "Redirect",
  "FileDescriptor",
  "Literal",
  "Glob",
  "SingleQuoted",
  "DoubleQuoted",
  "SimpleExpansion"
])

const problemOf = (node: SyntaxNode, depth: number): string | undefined => {
  if (depth > maxDepth) return "it is too deep to be judged"
  if (!plainNodes.has(node.type)) return `it has ${described[node.type] ?? "syntax that is not judged"}`
  if (node.type === "Script" && (node as ParsedScript).errors?.length) return "it cannot be parsed"
  if (node.type === "Statement" && node.background === true) return "it runs in the background"
  if (node.type === "Pipeline" && node.operators.some((operator) => operator !== "|"))
    return "it has a pipe that is not judged"
  if (node.type === "Command") {
    if (node.name === undefined) return "it has no command"
    if (node.prefix.some(({ type }) => type === "Assignment")) return "it sets a variable"
    const redirection = node.redirects.find((each) => !isHarmless(each))
    if (redirection !== undefined) return "it redirects input or output"
  }
  return undefined
}

const described: Partial<Record<SyntaxNode["type"], string>> = {
  CommandExpansion: "a command substitution",
  ProcessSubstitution: "a process substitution",
  ParameterExpansion: "a parameter expansion",
  ArithmeticExpansion: "an arithmetic expansion",
  BraceExpansion: "a brace expansion",
  AnsiCQuoted: "an ANSI-C quoted text",
  HereDoc: "a here-document",
  HereString: "a here-string",
  Function: "a function",
  Assignment: "an assignment"
}

/** Output that is thrown away, or goes to the other stream. */
const isHarmless = (redirection: Redirection): boolean => {
  if (redirection.type !== "Redirect" || redirection.target === undefined) return false
  const { descriptor, operator, target } = redirection
  if (descriptor !== undefined && descriptor.type !== "FileDescriptor") return false
  const to = literalOf(target)
  if (operator === ">&") return to === "1" || to === "2"
  return [">", ">>", "<", "&>", "&>>"].includes(operator) && to === "/dev/null"
}

const simpleCommand = ({ name, suffix }: Command, source: string): SimpleCommand => {
  const words = suffix.filter((each) => each.type === "Word" || each.type === "Assignment")
  const tokens = words.map((word) =>
    word.type === "Word" ? tokenOf(word, source) : { source: word.text, value: undefined }
  )
  return { tokens: name === undefined ? tokens : [tokenOf(name, source), ...tokens] }
}

const tokenOf = (word: Word, source: string): Token => {
  const written = { source: word.text === "" ? source.slice(word.pos, word.end) : word.text }
  const value = literalOf(word)
  if (value !== undefined) return { ...written, value }
  const unknown = { ...written, value: undefined }
  const parts = flat(word.parts ?? [])
  if (isRead(word.text) || parts.some(({ text, type }) => type !== "SingleQuoted" && isHistory(text)))
    return unknown
  const isOf = (...types: ReadonlyArray<string>) =>
    parts.some(({ type }) => type === types[0]) &&
    parts.every(({ type }) => [...types, "Literal", "SingleQuoted"].includes(type))
  if (isOf("Glob")) return { ...unknown, glob: word.value }
  if (!isOf("SimpleExpansion")) return unknown
  const variables = parts.filter(({ type }) => type === "SimpleExpansion").map(({ text }) => text.slice(1))
  return { ...unknown, variables }
}

/**
 * The text of a word, if every shell leaves it unchanged; otherwise `undefined`. A tilde and `=` at the beginning are expanded by some
 * shells, and `!` by those that a person uses.
 */
const literalOf = ({ parts, text, value }: Word): string | undefined => {
  if (isRead(text)) return undefined
  const isLiteral =
    parts === undefined
      ? !isHistory(text)
      : flat(parts).every(
          (part) =>
            part.type === "SingleQuoted" ||
            part.type === "AnsiCQuoted" ||
            (part.type === "Literal" && !isHistory(part.text))
        )
  return isLiteral ? value : undefined
}

const isRead = (text: string): boolean => /^[~=]/.test(text) || /=~/.test(text)

const isHistory = (text: string): boolean => /![^\s=(]/.test(text)

const flat = (parts: ReadonlyArray<WordPart>): ReadonlyArray<WordPart> =>
  parts.flatMap((part): ReadonlyArray<WordPart> => (part.type === "DoubleQuoted" ? part.parts : [part]))
