/**
 * Encodes the result of a tool that declares the schema of its results, and decodes such a result that came from outside.
 */
import type * as Cause from "effect/Cause"
import * as Exit from "effect/Exit"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import { isContent } from "../Tool.ts"
import type { ToolOptions } from "../ToolOptions.ts"

/** The JSON of a result that came from outside in the form that the schema decodes; the schema's text if it does not. */
export const decodeSuccess = (
  schema: ToolOptions<never, unknown>["success"],
  json: Schema.Json
): Result.Result<unknown, string> => {
  if (schema === undefined) return Result.succeed(json)
  try {
    const decoded = Schema.decodeUnknownExit(Schema.toCodecJson(schema))(json)
    return Exit.isSuccess(decoded) ? Result.succeed(decoded.value) : Result.fail(whyRefused(decoded.cause))
  } catch {
    return Result.fail("its success schema failed")
  }
}

const whyRefused = (cause: Cause.Cause<Schema.SchemaError>): string => {
  const [reason] = cause.reasons
  return reason?._tag === "Fail"
    ? reason.error.message.replaceAll(numberTexts, "a number")
    : "its success schema failed"
}

/** The JSON form of a number is a number or one of these texts, and the issue of another text lists only the texts. */
const numberTexts = '"Infinity" | "-Infinity" | "NaN"'

/** The result as JSON, or why the schema does not encode it. Without a schema, and for the parts of `Tool.content`, the result as it is. */
export const encodeSuccess = (
  schema: ToolOptions<never, unknown>["success"],
  value: unknown
): Result.Result<unknown, string> => {
  if (schema === undefined || isContent(value)) return Result.succeed(value)
  try {
    const encoded = Schema.encodeUnknownExit(Schema.toCodecJson(schema))(value)
    return Exit.isSuccess(encoded) ? Result.succeed(encoded.value) : Result.fail(whyRefused(encoded.cause))
  } catch {
    return Result.fail("its success schema failed")
  }
}
