/**
 * Encodes the result of a tool that declares the schema of its results.
 */
import * as Exit from "effect/Exit"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import { isContent } from "../Tool.ts"
import type { ToolOptions } from "../ToolOptions.ts"

/** The result as JSON, or why the schema does not encode it. Without a schema, and for the parts of `Tool.content`, the result as it is. */
export const encodeSuccess = (
  schema: ToolOptions<never, unknown>["success"],
  value: unknown
): Result.Result<unknown, string> => {
  if (schema === undefined || isContent(value)) return Result.succeed(value)
  try {
    const encoded = Schema.encodeUnknownExit(Schema.toCodecJson(schema))(value)
    if (Exit.isSuccess(encoded)) return Result.succeed(encoded.value)
    const [reason] = encoded.cause.reasons
    return Result.fail(reason?._tag === "Fail" ? reason.error.message : "its success schema failed")
  } catch {
    return Result.fail("its success schema failed")
  }
}
