/**
 * Encodes the fields of a typed error for the model.
 */
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import { ToolFailure } from "../ToolError.ts"
import type { ToolOptions } from "../ToolOptions.ts"

/**
 * Encodes an error as JSON, with the tool's `failure` schema or else with the schema that is the error's own class. Returns
 * `undefined` if there is no schema, if the error does not match it, and for a `ToolFailure`, whose message has all its data.
 */
export const encodeFailure = (
  declared: ToolOptions<never, unknown>["failure"],
  error: unknown
): string | undefined => {
  try {
    const schema = declared ?? schemaOf(error)
    if (schema === undefined || error instanceof ToolFailure) return undefined
    const encoded = Schema.encodeUnknownOption(Schema.toCodecJson(schema))(error)
    return Option.isSome(encoded) ? JSON.stringify(encoded.value) : undefined
  } catch {
    // A thrown value may be anything, and a schema may require services.
    return undefined
  }
}

const schemaOf = (error: unknown): ToolOptions<never, unknown>["failure"] => {
  if (!(error instanceof Error)) return undefined
  const { constructor }: { readonly constructor: unknown } = error
  return Schema.isSchema(constructor) ? (constructor as Schema.Codec<unknown, unknown>) : undefined
}
