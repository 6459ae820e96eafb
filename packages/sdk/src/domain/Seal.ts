/**
 * A run state that may leave the trust boundary: through a browser, a queue, a mail.
 *
 * A sealed state is text that can be read, and not changed unnoticed: `fermata1.<key id>.<state>.<seal>`, where the seal is an
 * HMAC-SHA-256 over everything before it. It is not encrypted. Keys are changed without losing what is under way: seal with the
 * new key, and open with both until the last old state has come back.
 *
 * @since 0.1.0
 */
import * as Effect from "effect/Effect"
// Stable core as well, though it lies in a folder.
// oxlint-disable-next-line no-restricted-imports
import * as Base64Url from "effect/encoding/Base64Url"
import * as Redacted from "effect/Redacted"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import { sentence } from "./Display.ts"
import { SealBroken, type RunStateMalformed, type RunStateTooNew } from "./RunError.ts"
import type { RunState } from "./RunState.ts"
import * as RunStateCodec from "./RunStateCodec.ts"

/** A key and its name, which is written into what it seals: letters, digits, `_` and `-`. */
export interface SealKey {
  readonly id: string
  /** At least {@link minimumBytes} bytes as UTF-8, from a random source. */
  readonly secret: Redacted.Redacted<string>
}

/** Bytes that a secret has at least: as many as the seal. */
export const minimumBytes = 32

/** The key cannot be used. Its secret is not in here. */
export class SealKeyInvalid extends Schema.TaggedError<SealKeyInvalid>()("SealKeyInvalid", {
  keyId: Schema.String,
  reason: Schema.Literals(["tooShort", "badId"])
}) {
  override get message() {
    return this.reason === "tooShort"
      ? sentence`The secret of the key "${this.keyId}" is too short: use ${minimumBytes} random bytes or more, such as "openssl rand -base64 48" prints.`
      : sentence`"${this.keyId}" is no key id: use letters, digits, "_" and "-".`
  }
}

const format = "fermata1"
const algorithm = { name: "HMAC", hash: "SHA-256" }

/**
 * The sealed text of a state.
 *
 * **Errors**
 *
 * - `SealKeyInvalid` — the secret is shorter than {@link minimumBytes} bytes, or the id has other characters.
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
 * The state in a sealed text, if one of the keys sealed it and nothing was changed since.
 *
 * **Errors**
 *
 * - `SealBroken` — changed, cut off, sealed with another key, or not sealed at all. Nothing of it is used.
 * - `SealKeyInvalid` — one of the keys cannot be used.
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
  if (!/^[A-Za-z0-9_-]+$/.test(key.id))
    return Effect.fail(new SealKeyInvalid({ keyId: key.id, reason: "badId" }))
  const bytes = new TextEncoder().encode(Redacted.value(key.secret))
  return bytes.length < minimumBytes
    ? Effect.fail(new SealKeyInvalid({ keyId: key.id, reason: "tooShort" }))
    : Effect.succeed(bytes)
}

const importKey = (bytes: Uint8Array<ArrayBuffer>, usage: "sign" | "verify") =>
  crypto.subtle.importKey("raw", bytes, algorithm, false, [usage])

/** The bytes of a seal. Only their one canonical spelling counts: base64url has spare bits at its end. */
const macOf = (text: string | undefined): Uint8Array<ArrayBuffer> | undefined => {
  const bytes = Base64Url.decode(text ?? "")
  return Result.isSuccess(bytes) && Base64Url.encode(bytes.success) === text
    ? new Uint8Array(bytes.success)
    : undefined
}
