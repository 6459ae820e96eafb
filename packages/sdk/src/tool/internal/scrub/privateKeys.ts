/**
 * Removes private keys of several lines. The lines of a key are recognized one by one, so that a key without an end is removed too.
 */
import { placeholder } from "./span.ts"

const begin = /-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----/
const end = /-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----/
/** A whole key in one line, with escaped line breaks. */
const inOneLine =
  /-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----((?:[A-Za-z0-9+/=\s:,.-]|\\+[nrt/]){16,}?)(?:-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----|(?=["'`])|$)/g

/** What stands before the private lines of a key of PuTTY. */
const putty = /^\W{0,10}Private-Lines: \d{1,3}\s*$/

/** What tools put before a line: indentation, the sign of a diff, a quote, a line number. */
const prefix = /^[\s>+|#*"'`:.\d-]{0,24}?(?=[A-Za-z0-9+/=]{4}|[A-Za-z0-9+/=]{1,3}[\s"'`\\,+]{0,8}$)/
const suffix = /(?:\\+[nr]|[\s"'`,+;)])*$/
const body = /^[A-Za-z0-9+/]+={0,3}$|^=[A-Za-z0-9+/]{4}$/
const header = /^[A-Za-z][A-Za-z-]{1,30}: .{0,200}$/

const shortestFirst = 16

/** How much is held of headers and empty lines. */
const longestGap = 8192

/** Removes private keys line by line. It remembers whether a key may have begun, or has begun, in the lines before. */
export class PrivateKeys {
  #state: "outside" | "begun" | "inside" = "outside"
  /** The line on which the key begins, up to the key. */
  #before = ""
  /** What is returned if the next line is none of a key: the lines since its beginning, or the empty lines within it. */
  #held = ""

  /** Whether a key may have begun. */
  get isHolding(): boolean {
    return this.#state !== "outside"
  }

  /** Returns the lines that are decided after a further one, without the keys in them. */
  next(line: string, found?: (type: string) => void): ReadonlyArray<string> {
    if (this.#state === "outside") return this.#outside(line, found)
    const ends = end.exec(line)
    if (ends !== null) {
      // What stands after the key is on the line on which the key began.
      const after = line.slice(ends.index + ends[0].length)
      if (this.#state === "inside") return this.#outside(this.#leave() + after, found)
      return [this.#leave() + line.slice(0, line.length - after.length), ...this.#outside(after, found)]
    }
    const text = line.replace(prefix, "").replace(suffix, "")
    const isGap = text === "" || (this.#state === "begun" && header.test(text))
    if (isGap && this.#held.length < longestGap) {
      this.#held += line
      return []
    }
    if (body.test(text) && (this.#state === "inside" || text.length >= shortestFirst)) {
      if (this.#state === "begun") found?.("private-key")
      this.#state = "inside"
      this.#held = ""
      return []
    }
    const isKey = this.#state === "inside"
    const held = this.#held
    const left = this.#leave()
    return isKey ? [`${left}\n`, held, ...this.#outside(line, found)] : [left, ...this.#outside(line, found)]
  }

  /** Returns the lines that are held at the end of the text. */
  end(): ReadonlyArray<string> {
    if (this.#state === "outside") return []
    const held = this.#state === "inside" ? this.#held : ""
    return [this.#leave(), held]
  }

  /** Returns what remains of the lines since the beginning of the key. */
  #leave(): string {
    const out = this.#state === "inside" ? this.#before + placeholder("private-key") : this.#held
    this.#state = "outside"
    this.#held = ""
    this.#before = ""
    return out
  }

  #outside(given: string, found: ((type: string) => void) | undefined): ReadonlyArray<string> {
    if (putty.test(given)) {
      this.#state = "begun"
      this.#before = given
      this.#held = given
      return []
    }
    if (!given.includes("-----BEGIN ")) return [given]
    const line = given.replace(inOneLine, (key, inner: string) => {
      const letters = inner.replace(/\\+[nrt]|[^A-Za-z0-9+/=]/g, "")
      if (letters.length < shortestFirst || (!key.includes("-----END") && !/\\+n/.test(inner))) return key
      found?.("private-key")
      return placeholder("private-key")
    })
    const begins = begin.exec(line)
    if (begins === null || line.slice(begins.index + begins[0].length).includes("-----END")) return [line]
    this.#state = "begun"
    this.#before = line.slice(0, begins.index)
    this.#held = line
    return []
  }
}
