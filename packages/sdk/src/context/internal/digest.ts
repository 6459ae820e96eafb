/**
 * The summary that needs no model: what the user wrote, the newest messages first while there is room, and which tools were called with what
 * outcome.
 */
import type { Message } from "../../domain/Message.ts"
import { saidByUser } from "./transcript.ts"

/** Makes the digest of messages, in at most `most` tokens as `count` counts them. */
export const digestMessages = (
  messages: Iterable<Message>,
  options: {
    readonly previous: string | undefined
    readonly most: number
    readonly count: (text: string) => number
  }
): string => {
  const { count, most, previous } = options
  const said: Array<string> = []
  const calls = new Map<string, number>()
  for (const message of messages) {
    const words = saidByUser(message)
    if (words !== undefined) said.push(words)
    if (message.role === "tool") {
      const key = `${message.name}: ${message.outcome}`
      calls.set(key, (calls.get(key) ?? 0) + 1)
    }
  }
  const tools =
    calls.size === 0
      ? ""
      : `Tools were called:\n${[...calls].map(([key, times]) => `- ${key}${times === 1 ? "" : ` (${times} times)`}`).join("\n")}`
  const parts: Array<string> = []
  let room = most
  const take = (text: string, atMost = room): string | undefined => {
    const fitting = fit(text, Math.min(room, atMost), count)
    if (fitting === undefined) return undefined
    room -= count(fitting)
    return fitting
  }
  // The newest words of the user come first, and the earlier record gets what is left.
  const list = take(tools, most / 4)
  const newest: Array<string> = []
  for (let index = said.length - 1; index >= 0 && room > 0; index -= 1) {
    const words = take(`- ${said[index]!}`, Math.max(most / 8, 50))
    if (words === undefined) break
    newest.unshift(words)
  }
  const before = previous === undefined ? undefined : take(previous)
  if (before !== undefined) parts.push(before)
  if (newest.length > 0) parts.push(`The user wrote:\n${newest.join("\n")}`)
  if (list !== undefined) parts.push(list)
  return parts.length === 0 ? "Nothing that could be recorded was said." : parts.join("\n\n")
}

/** The beginning of a text that has at most `most` tokens; `undefined` if not even some words fit. */
export const fit = (text: string, most: number, count: (text: string) => number): string | undefined => {
  if (text === "") return undefined
  const all = count(text)
  if (all <= most) return text
  let length = Math.floor((text.length * most) / all)
  while (length >= 16) {
    // A pair of surrogates stays whole.
    const end = /[\udc00-\udfff]/.test(text.charAt(length)) ? length - 1 : length
    const cut = `${text.slice(0, end)} […]`
    if (count(cut) <= most) return cut
    length = Math.floor(length * 0.9)
  }
  return undefined
}
