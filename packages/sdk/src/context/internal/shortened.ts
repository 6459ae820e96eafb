/**
 * Results as models see them after a compaction: replaced by a text, or shortened.
 *
 * The same message gives the same object, so that counts and encodings of it stay valid in later turns.
 */
import { sentence } from "../../domain/Display.ts"
import { sha256Of } from "../../domain/internal/sha256.ts"
import { type Message, text, textOf, type ToolMessage } from "../../domain/Message.ts"

/** Shorter results are not replaced. */
const clearedAbove = 400

/** Whether a message is a long result of a successful call. What failed stays, so that it is not tried again. */
export const isClearable = (message: Message): message is ToolMessage =>
  message.role === "tool" &&
  (message.outcome === "completed" || message.outcome === "supplied") &&
  textOf(message.content).length > clearedAbove

interface Made {
  readonly recall: string | undefined
  readonly made: ToolMessage
}

const cleared = new WeakMap<Message, Made>()

/** The result with a short text in its place. `recall` is the name of the tool that reads such a result again. */
export const clear = (message: ToolMessage, recall: string | undefined): ToolMessage => {
  const known = cleared.get(message)
  if (known !== undefined && known.recall === recall) return known.made
  const { length } = textOf(message.content)
  const how =
    recall === undefined ? "" : sentence` To read it again, call ${recall} with the id ${idOf(message)}.`
  const made: ToolMessage = {
    ...message,
    content: [text(sentence`[tool result cleared: ${length} characters.${how}]`)]
  }
  cleared.set(message, { recall, made })
  return made
}

/** Digits of a SHA-256 that name a result of a session. */
const idDigits = 16

const digests = new WeakMap<Message, string>()

/** The SHA-256 of the text of a result: of the whole one if the result was cut. */
export const digestOf = (message: ToolMessage): string => {
  const known = digests.get(message)
  if (known !== undefined) return known
  const whole = message.content.find((part) => part._tag === "text" && part.whole !== undefined)
  const digest =
    whole?._tag === "text" && whole.whole !== undefined
      ? whole.whole.sha256
      : sha256Of(new TextEncoder().encode(textOf(message.content)))
  digests.set(message, digest)
  return digest
}

const idOf = (message: ToolMessage): string => digestOf(message).slice(0, idDigits)

const cuts = new WeakMap<Message, { readonly characters: number; readonly made: ToolMessage }>()

/** The result with the middle of its text left out, if it has more characters than this. */
export const shorten = (message: ToolMessage, characters: number): ToolMessage => {
  const whole = textOf(message.content)
  if (whole.length <= characters) return message
  const known = cuts.get(message)
  if (known !== undefined && known.characters === characters) return known.made
  const head = Math.ceil(characters / 2)
  const tail = characters - head
  const left = `${whole.slice(0, head)}[… ${whole.length - characters} characters are left out …]${tail === 0 ? "" : whole.slice(-tail)}`
  const made: ToolMessage = {
    ...message,
    content: [text(left), ...message.content.filter((part) => part._tag !== "text")]
  }
  cuts.set(message, { characters, made })
  return made
}
