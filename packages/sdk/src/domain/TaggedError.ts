/**
 * The base of all error classes: Effect's `Schema.TaggedError`, shown as a Node error is.
 *
 * `console.error` prints the sentence, the stack and the fields. `JSON.stringify` gives `name`, `message`, `code` and the fields. `code` is
 * the error's tag, under the name that Node's errors have.
 *
 * @since 0.1.0
 */
import * as Schema from "effect/Schema"

/** Defines an error class with a tag and fields, as `Schema.TaggedError` does. */
export const TaggedError = <Self = never>(identifier?: string) => {
  const define = Schema.TaggedError<Self, { readonly code: string }>(identifier)
  const shown = (...given: ReadonlyArray<unknown>) => {
    const defined = (define as (...given: ReadonlyArray<unknown>) => { readonly prototype: object })(...given)
    Object.defineProperties(defined.prototype, {
      code: { get: codeOf, configurable: true },
      toJSON: { value: toJson, configurable: true },
      // Effect prints the fields alone. Without its function, Node prints the error itself.
      [inspected]: { value: undefined, configurable: true }
    })
    return defined
  }
  return shown as unknown as typeof define
}

const inspected = Symbol.for("nodejs.util.inspect.custom")

function codeOf(this: { readonly _tag: string }): string {
  return this._tag
}

function toJson(this: Error & { readonly code: string }): object {
  const { code, message, name } = this
  return { name, message, code, ...(this as object) }
}
