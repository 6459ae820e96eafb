/**
 * The number of the requested turn, derived from the history.
 */
import type { Script } from "../System.ts"

/**
 * By the number of messages, where a run begins with one message and every answer and every result of a call is one more. Costs one
 * lookup in a table for any length of the history.
 */
export const turnByLength = ({ answer }: Script): ((messages: number) => number) => {
  const turns = new Map([[1, 1]])
  let length = 1
  return (messages) => {
    while (length < messages) {
      const turn = turns.size
      length += 1 + (answer(turn).calls?.length ?? 0)
      turns.set(length, turn + 1)
    }
    const turn = turns.get(messages)
    if (turn === undefined) throw new Error(`No turn of this script begins with ${messages} messages.`)
    return turn
  }
}

/** By the roles, from the end back to the last message of the user. For a history that contains an earlier conversation. */
export const turnByRoles = <Message>(
  messages: ReadonlyArray<Message>,
  roleOf: (message: Message) => "user" | "assistant" | "other"
): number => {
  let turn = 1
  for (let at = messages.length - 1; at >= 0; at--) {
    const role = roleOf(messages[at]!)
    if (role === "user") break
    if (role === "assistant") turn += 1
  }
  return turn
}
