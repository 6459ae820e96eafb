/**
 * Finds values whose name stands in the line before: `name: DB_PASSWORD` above `value: …`, the block of a YAML field, a part of a form, the
 * content of an element; and the data of a Kubernetes Secret.
 */
import { EncodedData } from "./encoded.ts"
import { type KeyKind, kindOf } from "./keys.ts"
import { addValue } from "./keyValues.ts"
import { Line } from "./Line.ts"
import type { Span } from "./span.ts"

interface Pending {
  readonly name: string
  readonly kind: KeyKind
  /** What the next line begins with. */
  readonly next: RegExp
  /** The number of lines in which the value may stand. Default: 1. */
  readonly lines?: number
  /** Whether only a value with a digit can be the secret. */
  readonly spoken?: boolean
}

const named =
  /^[\s>+-]{0,40}[-{]?\s{0,4}["']?(?:name|key)["']?\s{0,3}[:=]\s{0,3}["']?([\w.-]{2,80})["']?,?\s{0,4}$/i
const block = /^[\s>+-]{0,40}["']?([\w.-]{2,80})["']?\s{0,3}:\s{0,3}[|>][+-]?\d?\s{0,4}$/
/** The start tag of an element whose content is in the next line. */
const element = /^\s{0,40}<(?:[\w-]{1,40}:)?([\w.-]{2,80})(?:\s[^<>]{0,200})?>\s{0,4}$/
/** `variable "db_password" {` of Terraform, and a key of a property list. */
const variable = /^\s{0,40}variable\s+"([\w.-]{2,80})"\s{0,4}\{\s{0,4}$/
const property = /^\s{0,40}<key>([\w.-]{2,80})<\/key>\s{0,4}$/
const default_ = /^\s{0,40}default\s{0,20}=\s{0,3}/
const string = /^\s{0,40}<string>/
/** A password that is said in a line of its own. */
const heading = /^[\s>*-]{0,40}((?:[Pp]ass(?:word|wort|code|phrase)|[Pp]asswd))\*{0,2}\s?:\*{0,2}\s{0,4}$/
const form = /;\s?name="([\w.-]{2,80})"\s{0,4}$/

const value = /^[\s>+-]{0,40}["']?value["']?\s{0,3}[:=]\s{0,3}/i
const content = /^[\s>+-]{0,40}(?=\S+\s*$)/

/** Remembers the name that a line ends with. */
export class NameBefore {
  #pending: Pending | undefined
  readonly #encoded = new EncodedData()

  /** Whether the next line may contain the value of a name before it. */
  get isPending(): boolean {
    return this.#pending !== undefined || this.#encoded.isInside
  }

  /** Whether the next line matters however short it is. */
  get needsEveryLine(): boolean {
    return this.isPending || this.#encoded.isManifest
  }

  /** Adds the value that belongs to the name of an earlier line, and remembers the name of this one. */
  next(line: string, spans: Array<Span>): void {
    this.#encoded.next(line, spans)
    const pending = this.#pending
    if (pending !== undefined) {
      if (line.trim() === "") return
      this.#pending = undefined
      const found = pending.next.exec(line)
      if (found !== null) {
        const before = spans.length
        const place = { at: found[0].length, literal: false, spoken: pending.spoken === true }
        addValue(new Line(line), pending.name, pending.kind, place, spans)
        if (spans.length > before) return
      }
    }
    this.#pending = pendingOf(line) ?? later(pending, line)
  }
}

/** What is still expected after a line of a block that has no value. */
const later = (pending: Pending | undefined, line: string): Pending | undefined =>
  pending?.lines === undefined || pending.lines < 2 || line.includes("}")
    ? undefined
    : { ...pending, lines: pending.lines - 1 }

const pendingOf = (line: string): Pending | undefined => {
  if (line.length > 300) return undefined
  const found = named.exec(line)
  const declared = variable.exec(line)?.[1] ?? property.exec(line)?.[1]
  if (declared !== undefined) {
    const kind = kindOf(declared)
    const next = line.includes("<key>") ? string : default_
    return kind === undefined ? undefined : { name: declared, kind, next, lines: 5 }
  }
  const said = heading.exec(line)?.[1]
  if (said !== undefined) return { name: said, kind: "password", next: content, spoken: true }
  const name = found?.[1] ?? block.exec(line)?.[1] ?? form.exec(line)?.[1] ?? element.exec(line)?.[1]
  if (name === undefined) return undefined
  const kind = kindOf(name)
  return kind === undefined ? undefined : { name, kind, next: found === null ? content : value }
}
