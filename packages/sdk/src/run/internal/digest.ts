/**
 * The digest that binds a decision to the tool and the arguments that were shown.
 */
import * as Effect from "effect/Effect"
import type * as Schema from "effect/Schema"
import { canonicalJson } from "../../domain/internal/json.ts"
import type { ToolApprovalItem } from "../../domain/Interruption.ts"

/** SHA-256, in hex, over a tool's name and the arguments in canonical JSON. */
export const argumentsDigest = (tool: string, args: Schema.Json): Effect.Effect<string> =>
  sha256([tool, args])

/**
 * The digest that an approval request has over these arguments: of the tool's identity and the arguments; of a request that an earlier
 * version made, of the tool's name and the arguments.
 */
export const approvalDigest = (
  { agentPath, safety, schema, tool }: Pick<ToolApprovalItem, "agentPath" | "tool" | "schema" | "safety">,
  args: Schema.Json
): Effect.Effect<string> =>
  schema === undefined
    ? argumentsDigest(tool, args)
    : sha256([agentPath.at(-1) ?? "", tool, schema, safety, args])

const sha256 = (value: Schema.Json): Effect.Effect<string> =>
  Effect.suspend(() => {
    const text = canonicalJson(value)
    const hash = (hashAtOnce ??= ofRuntime() ?? null)
    return hash === null ? Effect.promise(() => hashApart(text)) : Effect.succeed(hash("sha256", text, "hex"))
  })

type Hash = (algorithm: "sha256", text: string, encoding: "hex") => string

/** `null` where there is none. */
let hashAtOnce: Hash | null | undefined

/** What Node and its like have: an answer at once takes a tenth of what it takes to ask a thread and wait for it. */
const ofRuntime = (): Hash | undefined => {
  const { process } = globalThis as {
    readonly process?: { readonly getBuiltinModule?: (name: string) => { readonly hash?: Hash } | undefined }
  }
  return process?.getBuiltinModule?.("crypto")?.hash
}

/** What every runtime has. */
const hashApart = async (text: string): Promise<string> => {
  const hash = new Uint8Array(
    await globalThis.crypto.subtle.digest("SHA-256", new TextEncoder().encode(text))
  )
  return Array.from(hash, (byte) => byte.toString(16).padStart(2, "0")).join("")
}
