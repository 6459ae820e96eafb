/**
 * A part of a history as plain text, for the model that summarizes it. Roles are labels, so that the request has no calls and no tools.
 */
import type { AssistantPart, FilePart, Message, UserPart } from "../../domain/Message.ts"
import { textOf } from "../../domain/Message.ts"

/** The most characters of a result or of the arguments of a call. */
const mostCharacters = 2000

/** A message as text. */
export const transcribe = (message: Message): string => {
  switch (message.role) {
    case "user":
      return labelled(message.origin === "runtime" ? "RUNTIME" : "USER", partsText(message.content))
    case "assistant":
      return labelled("ASSISTANT", partsText(message.content))
    case "tool":
      return labelled(
        `RESULT of ${message.name} (${message.outcome})`,
        shortenMiddle(partsText(message.content))
      )
  }
}

const labelled = (label: string, said: string): string => `${label}: ${said === "" ? "(nothing)" : said}`

const partsText = (parts: ReadonlyArray<AssistantPart | UserPart>): string =>
  parts
    .map(partText)
    .filter((part) => part !== "")
    .join("\n")

const partText = (part: AssistantPart | UserPart): string => {
  switch (part._tag) {
    case "text":
      return part.text
    case "reasoning":
      return ""
    case "toolCall":
      return `(calls ${part.name} with ${shortenMiddle(part.arguments)})`
    case "file":
      return fileText(part)
  }
}

const fileText = ({ mediaType, name }: FilePart): string =>
  name === undefined ? `(a file, ${mediaType})` : `(the file ${name}, ${mediaType})`

const shortenMiddle = (value: string): string => {
  if (value.length <= mostCharacters) return value
  const half = mostCharacters / 2
  return `${value.slice(0, half)}[… ${value.length - mostCharacters} characters are left out …]${value.slice(-half)}`
}

/** The text of a user's message, for a digest; `undefined` for any other message and for one without text. */
export const saidByUser = (message: Message): string | undefined => {
  if (message.role !== "user" || message.origin === "runtime") return undefined
  const said = textOf(message.content).trim()
  return said === "" ? undefined : said
}
