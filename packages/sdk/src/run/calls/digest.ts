/** The digest that binds a decision to the tool, the arguments and the facts that its request showed. */
import * as Effect from "effect/Effect"
import type * as Schema from "effect/Schema"
import { canonicalJson } from "../../domain/internal/json.ts"
import { sha256Of } from "../../domain/internal/sha256.ts"
import type { ToolApprovalItem } from "../../domain/Interruption.ts"

/** SHA-256, in hex, over a tool's name and the arguments in canonical JSON. */
export const argumentsDigest = (tool: string, args: Schema.Json): Effect.Effect<string> =>
  sha256([tool, args])

/**
 * The digest of an approval request over these arguments. It covers the tool's identity, the arguments, and the facts if there are any; for
 * requests of earlier versions, which record no schema, the tool's name and the arguments.
 */
export const approvalDigest = (
  {
    agentPath,
    facts,
    safety,
    schema,
    tool
  }: Pick<ToolApprovalItem, "agentPath" | "tool" | "schema" | "safety" | "facts">,
  args: Schema.Json
): Effect.Effect<string> => {
  if (schema === undefined) return argumentsDigest(tool, args)
  const shown = [agentPath.at(-1) ?? "", tool, schema, safety, args]
  return sha256(facts === undefined ? shown : [...shown, facts])
}

const sha256 = (value: Schema.Json): Effect.Effect<string> =>
  Effect.sync(() => sha256Of(canonicalJson(value)))
