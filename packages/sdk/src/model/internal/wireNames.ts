/**
 * Ids of tool calls and names of tools on the wire.
 *
 * An id connects a call to its result. A provider refuses a request in which an id is empty, duplicate, too long, or contains other
 * characters than it accepts. The providers' ids in a history may be any of that. Such an id is replaced by one derived from Fermata's own
 * call id, which is unique. The same history always gives the same ids.
 */
import type { ToolCallId } from "../../domain/Id.ts"
import type { Message } from "../../domain/Message.ts"

/** Returns the name of a tool or an output in a form that every provider accepts. A model may have made up the name of a tool. */
export const wireName = (name: string): string =>
  name.replaceAll(/[^a-zA-Z0-9_-]/g, "_").slice(0, 64) || "unnamed"

/** The form of ids that a provider accepts. */
export interface IdForm {
  /** Matches an id of accepted characters. */
  readonly letters: RegExp
  readonly maxLength: number
  /** If set, an id has exactly this many letters and digits, and `letters` and `maxLength` do not apply. */
  readonly length?: number | undefined
}

/** Returns the id on the wire of each call of a history. */
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

/** Derives an id from Fermata's call id. A number is added if cutting or hashing made it equal to another one. */
const madeFrom = (callId: string, { length, maxLength }: IdForm, used: ReadonlySet<string>): string => {
  for (let attempt = 0; ; attempt++) {
    const id =
      length === undefined
        ? endOf(callId, attempt === 0 ? "call_" : `call_${attempt}_`, maxLength)
        : mixed(attempt === 0 ? callId : `${attempt} ${callId}`, length)
    if (!used.has(id)) return id
  }
}

/** Calls of one run differ only at the end of their ids, so the end is kept. */
const endOf = (callId: string, prefix: string, maxLength: number): string =>
  prefix + callId.replaceAll(/[^a-zA-Z0-9_-]/g, "_").slice(-(maxLength - prefix.length))

const alphabet = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

/** Hashes a text to this many letters and digits: FNV-1a, up to five characters per hash. */
const mixed = (text: string, length: number): string => {
  let out = ""
  for (let round = 0; out.length < length; round++) {
    let hash = 0x811c9dc5 ^ round
    for (let at = 0; at < text.length; at++) hash = Math.imul(hash ^ text.charCodeAt(at), 0x01000193)
    // The lower bits of FNV differ too little between texts with the same ending.
    hash = Math.imul(hash ^ (hash >>> 15), 0x85ebca6b)
    let rest = (hash ^ (hash >>> 13)) >>> 0
    for (let count = 0; count < 5; count++, rest = Math.floor(rest / 62)) out += alphabet[rest % 62]
  }
  return out.slice(0, length)
}
