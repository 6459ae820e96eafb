/**
 * The digest that binds a decision to the arguments that were shown.
 */
import * as Effect from "effect/Effect"
import type * as Schema from "effect/Schema"
import { canonicalJson } from "../../domain/internal/json.ts"

/** SHA-256, in hex, over a tool's name and the arguments in canonical JSON. */
export const argumentsDigest = (tool: string, args: Schema.Json): Effect.Effect<string> =>
  Effect.promise(async () => {
    const bytes = new TextEncoder().encode(canonicalJson([tool, args]))
    const hash = new Uint8Array(await globalThis.crypto.subtle.digest("SHA-256", bytes))
    return Array.from(hash, (byte) => byte.toString(16).padStart(2, "0")).join("")
  })
