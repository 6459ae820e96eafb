/**
 * Seals run states that leave the program, for example through a browser, a queue or an e-mail, so that a changed state is refused.
 *
 * A sealed state is the text `fermata1.<key id>.<state>.<seal>`. The seal is an HMAC-SHA-256 over everything before it. The state is
 * signed and not encrypted, and an old state stays valid. A key is found by its id, so a new secret needs a new id. To rotate keys, seal
 * with the new key and open with both, until no state with the old seal is left.
 *
 * @since 0.1.0
 */
import * as Effect from "effect/Effect"
// This module is part of Effect's stable core, although it is in a folder.
// oxlint-disable-next-line no-restricted-imports
import * as Base64Url from "effect/encoding/Base64Url"
import * as Redacted from "effect/Redacted"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import { sentence } from "./Display.ts"
import { SealBroken, type RunStateMalformed, type RunStateTooNew } from "./RunError.ts"
import type { RunState } from "./RunState.ts"
import * as RunStateCodec from "./RunStateCodec.ts"
import { TaggedError } from "./TaggedError.ts"

/** A key for sealing. */
export interface SealKey {
  /** The key's name, which the sealed text shows: letters, digits, `_` and `-`. */
  readonly id: string
  /** At least {@link minimumBytes} bytes as UTF-8, from a random source. */
  readonly secret: Redacted.Redacted<string>
}

/** The least number of bytes of a secret: the length of an HMAC-SHA-256. */
export const minimumBytes = 32

/** `seal` or `open` (`sealState`, `openState`) was given an invalid key. The error does not contain its secret. */
export class SealKeyInvalid extends TaggedError<SealKeyInvalid>()("SealKeyInvalid", {
  keyId: Schema.String,
  reason: Schema.Literals(["tooShort", "badId"])
}) {
  override get message() {
    return this.reason === "tooShort"
      ? sentence`The secret of the key "${this.keyId}" is too short: use ${minimumBytes} random bytes or more, such as "openssl rand -base64 48" prints.`
      : sentence`"${this.keyId}" is not a valid key id: use letters, digits, "_" and "-".`
  }
}

const format = "fermata1"
const algorithm = { name: "HMAC", hash: "SHA-256" }

/**
 * Seals a state with a key. Returns the text `fermata1.<key id>.<state>.<seal>`. It can be read without the key, but not changed unnoticed.
 *
 * **Errors**
 *
 * - `SealKeyInvalid` — the secret is shorter than 32 bytes ({@link minimumBytes}), or the id is empty or has other characters than letters,
 *   digits, `_` and `-`.
 */
export const seal = Effect.fnUntraced(function* (state: RunState, key: SealKey) {
  const bytes = yield* secretOf(key)
  const sealed = `${format}.${key.id}.${Base64Url.encode(RunStateCodec.encode(state))}`
  const mac = yield* Effect.promise(async () =>
    crypto.subtle.sign(algorithm, await importKey(bytes, "sign"), new TextEncoder().encode(sealed))
  )
  return `${sealed}.${Base64Url.encode(new Uint8Array(mac))}`
})

/**
 * Opens a sealed text, and decodes its state. The key that sealed it must be among `keys`; it is found by its id.
 *
 * **Errors**
 *
 * - `SealBroken` — the text was changed, cut off, sealed with another key, or never sealed. Do not use it.
 * - `SealKeyInvalid` — one of the keys is invalid.
 * - `RunStateMalformed`, `RunStateTooNew` — see `RunStateCodec.decode`.
 */
export const open: (
  sealed: string,
  keys: ReadonlyArray<SealKey>
) => Effect.Effect<RunState, SealBroken | SealKeyInvalid | RunStateMalformed | RunStateTooNew> =
  Effect.fnUntraced(function* (sealed, keys) {
    for (const key of keys) yield* secretOf(key)
    const [head, keyId, payload, seal, ...more] = sealed.split(".")
    const key = keys.find((key) => key.id === keyId)
    const mac = macOf(seal)
    if (
      head !== format ||
      key === undefined ||
      payload === undefined ||
      mac === undefined ||
      more.length > 0
    ) {
      return yield* new SealBroken({})
    }
    const bytes = yield* secretOf(key)
    const text = new TextEncoder().encode(`${head}.${keyId}.${payload}`)
    const isWhole = yield* Effect.promise(async () =>
      crypto.subtle.verify(algorithm, await importKey(bytes, "verify"), mac, text)
    )
    if (!isWhole) return yield* new SealBroken({})
    const json = Base64Url.decodeString(payload)
    if (Result.isFailure(json)) return yield* new SealBroken({})
    return yield* Effect.fromResult(RunStateCodec.decode(json.success))
  })

const secretOf = (key: SealKey): Effect.Effect<Uint8Array<ArrayBuffer>, SealKeyInvalid> => {
  // A missing id would be tested as the text "undefined".
  if (typeof key.id !== "string" || !/^[A-Za-z0-9_-]+$/.test(key.id))
    return Effect.fail(new SealKeyInvalid({ keyId: String(key.id), reason: "badId" }))
  const bytes = new TextEncoder().encode(Redacted.value(key.secret))
  return bytes.length < minimumBytes
    ? Effect.fail(new SealKeyInvalid({ keyId: key.id, reason: "tooShort" }))
    : Effect.succeed(bytes)
}

const importKey = (bytes: Uint8Array<ArrayBuffer>, usage: "sign" | "verify") =>
  crypto.subtle.importKey("raw", bytes, algorithm, false, [usage])

/** The bytes of a seal. Only the canonical spelling is accepted: base64url has unused bits at its end, which could be changed. */
const macOf = (text: string | undefined): Uint8Array<ArrayBuffer> | undefined => {
  const bytes = Base64Url.decode(text ?? "")
  return Result.isSuccess(bytes) && Base64Url.encode(bytes.success) === text
    ? new Uint8Array(bytes.success)
    : undefined
}
