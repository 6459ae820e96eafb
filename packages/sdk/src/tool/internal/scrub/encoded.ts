/**
 * Finds the values of a Kubernetes Secret, which are in base64 under names that say nothing: `data:` of a manifest, as YAML.
 */
import type { Span } from "./span.ts"

/** A manifest of the core group, or one that says what it is. A list of manifests has a dash before each. */
const manifest =
  /^[\s>+-]{0,40}["']?(?:apiVersion["']?:\s{0,3}["']?v1|kind["']?:\s{0,3}["']?Secret)["']?,?\s*$/i
const divider = /^---\s*$/
const data = /^([\s>+-]{0,40})["']?data["']?:\s*$/
const field =
  /^([\s>+-]{0,80})["']?[\w.-]{1,253}["']?:\s{1,4}(?:!!binary\s)?["']?([A-Za-z0-9+/]{6,20000}={0,2})["']?\s*$/
const content = /^([\s>+-]{0,80})([A-Za-z0-9+/]{6,20000}={0,2})\s*$/

/** Remembers whether the lines are those of a manifest, and of its data. */
export class EncodedData {
  #isManifest = false
  /** How far the line `data:` is indented, or undefined outside of the data. */
  #indent: number | undefined

  /** Whether short lines matter, too. */
  get isManifest(): boolean {
    return this.#isManifest
  }

  /** Whether the next line may be a field of the data. */
  get isInside(): boolean {
    return this.#indent !== undefined
  }

  /** Adds the value of a field of the data, and remembers what a line says about the next ones. */
  next(line: string, spans: Array<Span>): void {
    if (line.length > 21_000) return
    if (this.#indent !== undefined) {
      if (line.trim() === "" || /^\s*#/.test(line)) return
      if (indentOf(line) > this.#indent) {
        const found = field.exec(line) ?? content.exec(line)
        const value = found?.[2]
        if (value !== undefined && isEncodedSecret(value)) {
          const start = line.lastIndexOf(value)
          spans.push({ start, end: start + value.length, type: "secret" })
        }
        return
      }
      this.#indent = undefined
    }
    if (manifest.test(line)) this.#isManifest = true
    else if (divider.test(line)) this.#isManifest = false
    else if (this.#isManifest) {
      const before = data.exec(line)?.[1]
      if (before !== undefined) this.#indent = before.length
    }
  }
}

const indentOf = (line: string): number => /^[\s>+-]*/.exec(line)![0].length

/** Whether a value is base64 of a text, or of random bytes, and not of a certificate or a public key. */
export const isEncodedSecret = (value: string): boolean => {
  if (value.length < 8 || value.length % 4 !== 0 || !/^[A-Za-z0-9+/]+={0,2}$/.test(value)) return false
  const text = atob(value)
  if (/^-----BEGIN (?!.{0,40}PRIVATE)/.test(text)) return false
  if (/^[\t\n\r -~]+$/.test(text) || value.endsWith("=")) return true
  return value.length >= 16 && /[0-9]/.test(value) && /[a-z]/.test(value) && /[A-Z]/.test(value)
}
