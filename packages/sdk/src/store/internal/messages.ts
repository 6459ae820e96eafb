/**
 * Messages as every store keeps them: what may be sent, and which of them events take into the journal.
 *
 * Pure, so that the memory store and the SQL store cannot come to differ.
 */
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import type { Timestamp } from "../../domain/Id.ts"
import { defined } from "../../domain/internal/defined.ts"
import { isDeeperThan, maxGivenDepth } from "../../domain/internal/json.ts"
import type { UserPart } from "../../domain/Message.ts"
import { type RunEvent, unwrap } from "../../domain/RunEvent.ts"
import type { Status } from "../../domain/RunState.ts"
import { MessageInvalid } from "../RunStoreError.ts"
import { MessageId, type MessageInput, type Receipt, SentMessage } from "../SentMessage.ts"
import { isCancellable, isGoing } from "./requests.ts"

const decode = Schema.decodeUnknownResult(SentMessage)
const isMessageId = Schema.is(MessageId)

/** The message that a caller wrote, with an id and the time it is sent at. What is refused is not repeated. */
export const decodeMessage = (
  input: MessageInput,
  now: Timestamp
): Result.Result<SentMessage, MessageInvalid> => {
  const refuse = (issues: string) => Result.fail(new MessageInvalid({ issues }))
  if (typeof input !== "object" || input === null) return refuse("it is not an object")
  const messageId = input.messageId === undefined ? madeId() : input.messageId
  if (!isMessageId(messageId)) return refuse("its messageId is not 1 to 256 visible ASCII characters")
  const { content } = input
  if (!Array.isArray(content) || content.length === 0) return refuse("it has no content")
  if (isDeeperThan(content, maxGivenDepth)) {
    return refuse(`its content is nested more than ${maxGivenDepth} levels deep`)
  }
  const { ends, to } = input
  return Result.mapError(
    decode({ messageId, content, at: now, ...defined({ to, ends }) }),
    () =>
      new MessageInvalid({ issues: "its content is not a list of text and file parts, or it is for no run" })
  )
}

const madeId = (): string => `m_${globalThis.crypto.randomUUID().replaceAll("-", "")}`

/** Whether a run of this status takes a message. One that failed may be resumed: it keeps the end of a sub-agent until then. */
export const isSentTo = (status: Status, { ends }: SentMessage): boolean =>
  isGoing(status) || (ends === true && isCancellable(status))

/** The messages that events, of the run itself or of a sub-agent inside it, take into the journal. Most batches take none. */
export const takenBy = (events: ReadonlyArray<RunEvent>): ReadonlyArray<Receipt> => {
  const taken: Array<Receipt> = []
  for (const wrapped of events) {
    const event = wrapped._tag === "child.advanced" ? unwrap(wrapped).event : wrapped
    if (event._tag !== "message.queued" || event.messageId === undefined) continue
    taken.push({ messageId: event.messageId, at: event.at })
  }
  return taken
}

/** Why a message cannot have the id of another one; `undefined` when it is that one. Without this it would be lost in silence. */
export const idConflict = (known: { readonly to?: string }, sent: SentMessage): MessageInvalid | undefined =>
  known.to === sent.to
    ? undefined
    : new MessageInvalid({ issues: "its messageId is that of a message to another agent of the run" })

/** The messages of a run in memory, by id, in the order they were sent. One that is in the journal has no content here. */
export type Mail = ReadonlyMap<
  string,
  Omit<SentMessage, "messageId" | "content"> & { readonly content?: ReadonlyArray<UserPart> }
>

/** The mail after a batch of events, or the id of a message that the journal has already. */
export const mailAfter = (mail: Mail, events: ReadonlyArray<RunEvent>): Result.Result<Mail, string> => {
  const taken = takenBy(events)
  if (taken.length === 0) return Result.succeed(mail)
  const next = new Map(mail)
  for (const { at, messageId } of taken) {
    const known = next.get(messageId)
    if (known !== undefined && known.content === undefined) return Result.fail(messageId)
    const { content: _, ...rest } = known ?? { at }
    next.set(messageId, rest)
  }
  return Result.succeed(next)
}

/** The messages that are not in the journal, oldest first. */
export const waiting = (mail: Mail): ReadonlyArray<SentMessage> =>
  Array.from(mail).flatMap(([messageId, { content, ...rest }]) =>
    content === undefined ? [] : [{ messageId, content, ...rest }]
  )
