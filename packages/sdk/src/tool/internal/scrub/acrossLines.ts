import { type KeyKind, kindOf } from "./keys.ts"
/**
 * Finds values whose name stands in the line before: `name: DB_PASSWORD` above `value: …`, the block of a YAML field, a part of a form.
 */
import { addValue } from "./keyValues.ts"
import { Line } from "./Line.ts"
import type { Span } from "./span.ts"

interface Pending {
  readonly name: string
  readonly kind: KeyKind
  /** What the next line begins with. */
  readonly next: RegExp
}

const named =
  /^[\s>+-]{0,40}[-{]?\s{0,4}["']?(?:name|key)["']?\s{0,3}[:=]\s{0,3}["']?([\w.-]{2,80})["']?,?\s{0,4}$/i
const block = /^[\s>+-]{0,40}["']?([\w.-]{2,80})["']?\s{0,3}:\s{0,3}[|>][+-]?\d?\s{0,4}$/
const form = /;\s?name="([\w.-]{2,80})"\s{0,4}$/

const value = /^[\s>+-]{0,40}["']?value["']?\s{0,3}[:=]\s{0,3}/i
const content = /^[\s>+-]{0,40}(?=\S+\s*$)/

/** Remembers the name that a line ends with. */
export class NameBefore {
  #pending: Pending | undefined

  /** Whether the next line may contain the value of a name before it. */
  get isPending(): boolean {
    return this.#pending !== undefined
  }

  /** Adds the value that belongs to the name of an earlier line, and remembers the name of this one. */
  next(line: string, spans: Array<Span>): void {
    const pending = this.#pending
    if (pending !== undefined) {
      if (line.trim() === "") return
      this.#pending = undefined
      const found = pending.next.exec(line)
      if (found !== null) {
        const before = spans.length
        addValue(new Line(line), pending.name, pending.kind, { at: found[0].length, literal: false }, spans)
        if (spans.length > before) return
      }
    }
    this.#pending = pendingOf(line)
  }
}

const pendingOf = (line: string): Pending | undefined => {
  if (line.length > 300) return undefined
  const found = named.exec(line)
  const name = found?.[1] ?? block.exec(line)?.[1] ?? form.exec(line)?.[1]
  if (name === undefined) return undefined
  const kind = kindOf(name)
  return kind === undefined ? undefined : { name, kind, next: found === null ? content : value }
}
