/**
 * The texts in place of the files that came with earlier prompts of a session.
 */
import type { BlobRef } from "../../domain/Blob.ts"
import { name as shownName, sentence } from "../../domain/Display.ts"
import { bytesOf } from "../../domain/internal/files.ts"
import { sha256Of } from "../../domain/internal/sha256.ts"
import { type AssistantPart, type FilePart, type Message, text, type UserPart } from "../../domain/Message.ts"

/**
 * Messages in which texts stand for the files. The same message for the same one, so that what a client or a tokenizer keeps about it stays
 * valid for the next turn.
 */
const replaced = new WeakMap<Message, { readonly recall: string | undefined; readonly made: Message }>()

/** The message with a text in place of each file that has bytes. `recall` is the name of the tool that reads such a file. */
export const withoutFiles = (message: Message, recall: string | undefined): Message => {
  if (!message.content.some(isOwn)) return message
  const known = replaced.get(message)
  if (known !== undefined && known.recall === recall) return known.made
  const parts: ReadonlyArray<AssistantPart | UserPart> = message.content
  const content = parts.map((part) => (isOwn(part) ? text(standIn(part, recall)) : part))
  const made = { ...message, content } as Message
  replaced.set(message, { recall, made })
  return made
}

/** Whether a part is a file with bytes: a URL or a provider's reference is short, and stays. */
const isOwn = (part: AssistantPart | UserPart): part is FilePart =>
  part._tag === "file" && (part.source._tag === "bytes" || part.source._tag === "stored")

const standIn = (file: FilePart, recall: string | undefined): string => {
  const { mediaType, name } = file
  const ref = refOf(file)
  const what = name === undefined ? "A file" : `The file ${shownName(name)}`
  const facts = ref === undefined ? "" : `, ${ref.bytes.toLocaleString("en-US")} bytes, SHA-256 ${ref.sha256}`
  const how =
    recall === undefined || ref === undefined
      ? ""
      : sentence` To read it again, call ${recall} with the id ${ref.sha256.slice(0, idDigits)}.`
  return sentence`[${what} (${mediaType}${facts}) came with an earlier prompt and is not sent again.${how}]`
}

/** Digits of a SHA-256 that name a file of a session. */
const idDigits = 16

/** The reference of a file; `undefined` if its bytes are not valid base64. */
const refOf = (file: FilePart): BlobRef | undefined => {
  if (file.source._tag === "stored") return file.source
  const bytes = bytesOf(file)
  return bytes === undefined ? undefined : { sha256: sha256Of(bytes), bytes: bytes.length }
}
