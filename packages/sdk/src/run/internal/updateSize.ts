/**
 * The approximate size of an update in a reader's buffer, in characters.
 */
import type { RunUpdate } from "../../agent/RunUpdate.ts"
import type { FilePart } from "../../domain/Message.ts"
import { type RunEvent, unwrap } from "../../domain/RunEvent.ts"
import type { ModelPart } from "../../model/ModelPart.ts"

/** The approximate number of characters of an update. */
export const sizeOf = (update: RunUpdate): number => {
  switch (update._tag) {
    case "event":
      return sizeOfEvent(update.event)
    case "delta":
      return baseSize + sizeOfPart(update.part)
    case "output":
      return baseSize + update.chunk.length
    case "progress":
      return baseSize + update.message.length
    default:
      return baseSize
  }
}

/** The size of an update without its text. */
const baseSize = 100

const sizeOfPart = (part: ModelPart): number => {
  switch (part._tag) {
    case "text-delta":
    case "reasoning-delta":
    case "tool-call-delta":
      return part.delta.length
    case "tool-call":
      return part.arguments.length + sizeOfPayload(part.payload)
    case "file":
      return sizeOfFile(part.file)
    case "finish":
      return 0
    default:
      return (part.text?.length ?? 0) + sizeOfPayload(part.payload)
  }
}

/** The size of a payload, which a provider may fill with any value; 0 if it cannot be serialized. */
const sizeOfPayload = (payload: unknown): number => {
  if (payload === undefined) return 0
  try {
    return typeof payload === "string" ? payload.length : JSON.stringify(payload).length
  } catch {
    return 0
  }
}

const sizeOfFile = ({ source }: FilePart): number =>
  source._tag === "bytes" ? source.base64.length : baseSize

const sizeOfEvent = (event: RunEvent): number => {
  const { event: inner } = unwrap(event)
  const content = inner._tag === "run.started" ? inner.prompt : "content" in inner ? inner.content : []
  let size = 5 * baseSize
  for (const part of content) {
    if (part._tag === "file") size += sizeOfFile(part)
    else if (part._tag === "toolCall") size += part.arguments.length
    else size += part.text.length
  }
  return size
}
