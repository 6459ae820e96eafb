/** The digest that binds a decision to the tool, the arguments and the facts that its request showed. */
import * as Effect from "effect/Effect"
import type * as Schema from "effect/Schema"
import { canonicalJson } from "../../domain/internal/json.ts"
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
  Effect.suspend(() => {
    const text = canonicalJson(value)
    const hash = (syncHash ??= platformHash() ?? null)
    return hash === null ? Effect.promise(() => hashAsync(text)) : Effect.succeed(hash("sha256", text, "hex"))
  })

type Hash = (algorithm: "sha256", text: string, encoding: "hex") => string

/** The synchronous hash of the platform, `null` if it has none. Set on first use. */
let syncHash: Hash | null | undefined

/** The synchronous hash of Node and compatible platforms. It takes a tenth of the time of Web Crypto, which uses another thread. */
const platformHash = (): Hash | undefined => {
  const { process } = globalThis as {
    readonly process?: { readonly getBuiltinModule?: (name: string) => { readonly hash?: Hash } | undefined }
  }
  return process?.getBuiltinModule?.("crypto")?.hash
}

/** Hashes with Web Crypto, which every platform has. */
const hashAsync = async (text: string): Promise<string> => {
  const hash = new Uint8Array(
    await globalThis.crypto.subtle.digest("SHA-256", new TextEncoder().encode(text))
  )
  return Array.from(hash, (byte) => byte.toString(16).padStart(2, "0")).join("")
}
