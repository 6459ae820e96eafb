/**
 * The fields of a typed error, for the model.
 */
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import { ToolFailure } from "../ToolError.ts"
import type { ToolOptions } from "../ToolOptions.ts"

/**
 * The JSON of an error by the schema that its tool declares for failures, else by its own, if it is a `Schema.TaggedError`. None of an error
 * that has no schema, or does not fit; nor of a `ToolFailure`, which says all that it has in words.
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
    // What is thrown may be anything, and a schema may need what there is not.
    return undefined
  }
}

const schemaOf = (error: unknown): ToolOptions<never, unknown>["failure"] => {
  if (!(error instanceof Error)) return undefined
  const { constructor }: { readonly constructor: unknown } = error
  return Schema.isSchema(constructor) ? (constructor as Schema.Codec<unknown, unknown>) : undefined
}
