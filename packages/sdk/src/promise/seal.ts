/**
 * Seals run states that leave the program, for programs that do not use Effect. `Seal` describes the sealed text.
 *
 * @since 0.1.0
 */
import * as Effect from "effect/Effect"
import * as Redacted from "effect/Redacted"
import type { RunState } from "../domain/RunState.ts"
import * as Seal from "../domain/Seal.ts"

/** A key that seals states. */
export interface StateKey {
  /** The key's name, which the sealed text shows: letters, digits, `_` and `-`. */
  readonly id: string
  /** At least 32 bytes as UTF-8, from a random source, such as `openssl rand -base64 48` prints. */
  readonly secret: string | Redacted.Redacted<string>
}

/**
 * Seals a state with a key. The text is signed and not encrypted: a person who has the text can read the state, and a changed text is
 * refused. The text does not expire: an older state of the same run can be opened, too.
 *
 * **Example** (A held run that a browser keeps)
 *
 * ```ts run
 * import { agent, approve, createFermata, openState, sealState, tool } from "@fermata/node"
 * import { ScriptedModel } from "@fermata/node/testing"
 *
 * const key = { id: "2026", secret: "a random text of 32 bytes or more" }
 * const pay = tool("pay", { handler: () => "paid" })
 * const model = ScriptedModel.make([{ calls: [{ tool: "pay" }] }, "It is paid."]).client
 * await using fermata = await createFermata({ agents: [agent("clerk", { tools: [pay] })], model, store: false })
 *
 * const held = await fermata.runPrompt("clerk", "Pay the invoice")
 * const text = await sealState(held.state, key) // send it to the browser, with the requests
 *
 * const state = await openState(text, [key]) // when the browser returns it
 * const decisions = held.status === "interrupted" ? [{ request: held.interruptions[0]!, decision: approve() }] : []
 * console.log((await fermata.resume(state, { decisions })).status) // completed
 * ```
 *
 * **Errors**
 *
 * - `SealKeyInvalid` — the secret is shorter than 32 bytes, or the id is empty or has other characters than letters, digits, `_` and `-`.
 *
 * @category states
 * @since 0.1.0
 */
export const sealState = async (state: RunState, key: StateKey): Promise<string> =>
  Effect.runPromise(Seal.seal(state, redacted(key)))

/**
 * Opens a sealed text, and decodes its state. The key that sealed it must be among `keys`; it is found by its id, so a new secret needs a
 * new id. To rotate keys, pass the new one and the old one.
 *
 * **Errors**
 *
 * - `SealBroken` — the text was changed, cut off, sealed with another key, or never sealed. Do not use it.
 * - `SealKeyInvalid` — one of the keys is invalid.
 * - `RunStateMalformed`, `RunStateTooNew` — the state cannot be read by this version.
 *
 * @category states
 * @since 0.1.0
 */
export const openState = async (sealed: string, keys: ReadonlyArray<StateKey>): Promise<RunState> =>
  Effect.runPromise(Seal.open(String(sealed), keys.map(redacted)))

const redacted = ({ id, secret }: StateKey): Seal.SealKey => ({
  id,
  secret: Redacted.isRedacted(secret) ? secret : Redacted.make(secret)
})
