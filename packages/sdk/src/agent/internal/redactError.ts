/**
 * Removes secrets from the failures of user code: errors with their causes, or any other values. An error may hold a request with its
 * headers, a response, or itself; everything in it that a log can show is read, within bounds. Getters of the program are not called,
 * except `message`, `name`, `stack`, and the methods with which a value says how it is shown: `toJSON`, `toString`, and that of a console.
 */
import { messageOf } from "../../domain/Display.ts"
import type { Scrubber } from "../../tool/Scrubber.ts"

/** Values beyond these bounds are left out. */
const deepest = 100
const mostValues = 10_000
const mostCharacters = 1_048_576

const leftOut = "[left out]"

/** Returns an error without the secrets that the scrubber knows: the same one if it has none, otherwise a copy. Never throws. */
export const redactError = (scrubber: Scrubber, error: unknown): unknown => {
  const copier = new Copier(scrubber)
  const copy = copier.copy(error, 0)
  return copier.isChanged ? copy : error
}

class Copier {
  /** Whether a copy differs from its original. */
  isChanged = false
  readonly #scrubber: Scrubber
  readonly #copies = new Map<object, unknown>()
  #values = mostValues
  #characters = mostCharacters

  constructor(scrubber: Scrubber) {
    this.#scrubber = scrubber
  }

  copy(value: unknown, depth: number): unknown {
    this.#values -= 1
    if (typeof value === "string") return this.#text(value)
    if (typeof value === "symbol")
      return this.#text(value.description ?? "") === (value.description ?? "") ? value : leftOut
    if ((typeof value !== "object" && typeof value !== "function") || value === null) return value
    if (this.#copies.has(value)) return this.#copies.get(value)
    try {
      if (typeof value === "function") return this.#function(value, depth)
      return depth > deepest ? this.#leaveOut() : this.#object(value, depth + 1)
    } catch {
      return this.#leaveOut()
    }
  }

  #object(value: object, depth: number): unknown {
    const bytes = bytesOf(value)
    if (bytes !== undefined) return this.#bytes(bytes) ? value : this.#leaveOut()
    const keys = Reflect.ownKeys(value)
    if (keys.length > this.#values) return this.#leaveOut()
    const copy = Array.isArray(value) ? [] : value instanceof Error ? new Error() : {}
    this.#copies.set(value, copy)
    const put = (key: PropertyKey, shown: unknown, enumerable = false) =>
      void Object.defineProperty(copy, key, { value: shown, enumerable, writable: true, configurable: true })
    const fields = keys.flatMap((key) => {
      const field = Reflect.getOwnPropertyDescriptor(value, key)
      return field === undefined || isReadOtherwise(value, key) ? [] : [[key, field] as const]
    })
    const named = this.#named(value, fields)
    for (const [key, { enumerable = false, get, value: field }] of fields) {
      const shown = typeof key === "string" ? this.#text(key) : this.copy(key, depth)
      // What a getter returns is not known, and would be shown if it is enumerable.
      if (get === undefined) put(shown as PropertyKey, this.copy(named.get(key) ?? field, depth), enumerable)
      else if (enumerable) put(shown as PropertyKey, this.#leaveOut(), true)
    }
    if (value instanceof Error) {
      put("name", this.#text(String(value.name)))
      put("message", this.#text(messageOf(value)))
      put("stack", this.#text(String(value.stack ?? "")))
    }
    for (const shown of saidBy(value)) this.copy(shown, depth)
    const inPlace = this.copy(shownFor(value), depth)
    if (inPlace === undefined || value instanceof Error) return copy
    this.#copies.set(value, inPlace)
    return inPlace
  }

  /** A copy has no functions, which could show anything. A console shows the fields of one. */
  #function(value: object, depth: number): undefined {
    for (const [, field] of Object.entries(Object.getOwnPropertyDescriptors(value)))
      if (field.enumerable === true) this.copy("value" in field ? field.value : this.#leaveOut(), depth + 1)
  }

  /** The texts of fields whose names show that they are secrets, without these. */
  #named(
    value: object,
    fields: ReadonlyArray<readonly [PropertyKey, PropertyDescriptor]>
  ): ReadonlyMap<PropertyKey, unknown> {
    const texts: Record<string, unknown> = Array.isArray(value) ? ([] as never) : Object.create(null)
    for (const [key, field] of fields)
      if (typeof key === "string" && isText(field.value)) texts[key] = field.value
    const json = JSON.stringify(texts)
    const clean = this.#scrubber.redactFields?.(json) ?? json
    if (clean === json) return new Map()
    this.isChanged = true
    return new Map(Object.entries(JSON.parse(clean)).filter(([, shown]) => shown !== null))
  }

  #bytes(bytes: Uint8Array): boolean {
    const texts = [new TextDecoder("latin1").decode(bytes), new TextDecoder().decode(bytes)]
    return texts.every((text) => this.#text(text) === text)
  }

  #text(text: string): string {
    this.#characters -= text.length
    if (this.#characters < 0) return this.#leaveOut()
    const { redact, scrub } = this.#scrubber
    const shown = redact === undefined ? scrub(text) : redact(text)
    if (shown !== text) this.isChanged = true
    return shown
  }

  #leaveOut(): string {
    this.isChanged = true
    return leftOut
  }
}

const isText = (value: unknown): boolean =>
  typeof value === "string" || (Array.isArray(value) && value.every((item) => typeof item === "string"))

const bytesOf = (value: object): Uint8Array | undefined => {
  if (ArrayBuffer.isView(value)) return new Uint8Array(value.buffer, value.byteOffset, value.byteLength)
  return value instanceof ArrayBuffer ? new Uint8Array(value) : undefined
}

/** Whether a property is no field: the length of a list, and what every error has. */
const isReadOtherwise = (value: object, key: PropertyKey): boolean =>
  Array.isArray(value) ? key === "length" : value instanceof Error && errorKeys.has(key)

const errorKeys: ReadonlySet<PropertyKey> = new Set(["name", "message", "stack"])

/** What is shown for an object whose fields do not have it. */
const shownFor = (value: object): unknown => {
  if (value instanceof Map || value instanceof Set) return Array.from(value)
  if (value instanceof Headers || value instanceof URLSearchParams) return Array.from(value)
  if (value instanceof FormData) return Array.from(value)
  if (value instanceof Request || value instanceof Response)
    return { url: value.url, headers: Array.from(value.headers) }
  return "toJSON" in value && typeof value.toJSON === "function" ? value.toJSON() : undefined
}

/** How the methods of a value show it, for a text and for a console. One that fails shows nothing. */
const saidBy = (value: object): ReadonlyArray<unknown> =>
  ["toString", Symbol.for("nodejs.util.inspect.custom")].flatMap((key) => {
    try {
      const method: unknown = Reflect.get(value, key)
      return typeof method === "function" && method !== Array.prototype.toString
        ? [Reflect.apply(method, value, [2, {}, String])]
        : []
    } catch {
      return []
    }
  })
