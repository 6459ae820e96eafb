/**
 * How calls and tools are named on the wire.
 *
 * A call and its result are tied together by an id, and a provider refuses a request in which an id is empty, said twice, too
 * long or spelled with other letters than it likes. Its own ids may be any of that: they are used where they can be, and ids made
 * from ours, which are unique, where they cannot. The same history always gives the same ids.
 */
import type { ToolCallId } from "../../domain/Id.ts"
import type { Message } from "../../domain/Message.ts"

/** A name as every provider takes it: of a tool, of an output, and of the tools that a model made up. */
export const wireName = (name: string): string =>
  name.replaceAll(/[^a-zA-Z0-9_-]/g, "_").slice(0, 64) || "unnamed"

/** What a provider takes as an id. */
export interface IdForm {
  /** The letters that may be in it. */
  readonly letters: RegExp
  readonly maxLength: number
  /** It has to have just this many letters and digits, and nothing else. */
  readonly length?: number | undefined
}

/** The id of each call of a history. */
export const wireIds = (messages: ReadonlyArray<Message>, form: IdForm): ReadonlyMap<ToolCallId, string> => {
  const ids = new Map<ToolCallId, string>()
  const used = new Set<string>()
  for (const message of messages) {
    if (message.role !== "assistant") continue
    for (const part of message.content) {
      if (part._tag !== "toolCall") continue
      const own = part.providerCallId
      const id = fits(own, form) && !used.has(own) ? own : madeFrom(part.callId, form, used)
      used.add(id)
      ids.set(part.callId, id)
    }
  }
  return ids
}

const fits = (id: string, { length, letters, maxLength }: IdForm): boolean =>
  length === undefined
    ? id.length <= maxLength && letters.test(id)
    : id.length === length && /^[a-zA-Z0-9]+$/.test(id)

/** A number distinguishes what is the same after it was cut or mixed. */
const madeFrom = (callId: string, { length, maxLength }: IdForm, used: ReadonlySet<string>): string => {
  for (let attempt = 0; ; attempt++) {
    const id =
      length === undefined
        ? endOf(callId, attempt === 0 ? "call_" : `call_${attempt}_`, maxLength)
        : mixed(attempt === 0 ? callId : `${attempt} ${callId}`, length)
    if (!used.has(id)) return id
  }
}

/** The end of our id is what distinguishes calls. */
const endOf = (callId: string, prefix: string, maxLength: number): string =>
  prefix + callId.replaceAll(/[^a-zA-Z0-9_-]/g, "_").slice(-(maxLength - prefix.length))

const alphabet = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

/** This many letters and digits, the same ones for the same text: FNV-1a hashes, each of which makes up to five of them. */
const mixed = (text: string, length: number): string => {
  let out = ""
  for (let round = 0; out.length < length; round++) {
    let hash = 0x811c9dc5 ^ round
    for (let at = 0; at < text.length; at++) hash = Math.imul(hash ^ text.charCodeAt(at), 0x01000193)
    // FNV leaves the lower bits of texts that end alike too near to each other.
    hash = Math.imul(hash ^ (hash >>> 15), 0x85ebca6b)
    let rest = (hash ^ (hash >>> 13)) >>> 0
    for (let count = 0; count < 5; count++, rest = Math.floor(rest / 62)) out += alphabet[rest % 62]
  }
  return out.slice(0, length)
}
