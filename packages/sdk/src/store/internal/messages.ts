/**
 * The rules of messages: which inputs are valid, and which messages a batch of events adds to the journal.
 *
 * The functions are pure and shared by the memory store and the SQL store.
 */
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import { isRunWithin, type RunId, type Timestamp } from "../../domain/Id.ts"
import { defined } from "../../domain/internal/defined.ts"
import { fingerprint } from "../../domain/internal/fingerprint.ts"
import { canonicalJson, isDeeperThan, maxGivenDepth } from "../../domain/internal/json.ts"
import type { UserPart } from "../../domain/Message.ts"
import { type RunEvent, unwrap } from "../../domain/RunEvent.ts"
import type { Status } from "../../domain/RunState.ts"
import { MessageInvalid } from "../RunStoreError.ts"
import { MessageId, type MessageInput, type Receipt, SentMessage } from "../SentMessage.ts"
import { isCancellable, isGoing } from "./requests.ts"

const decode = Schema.decodeUnknownResult(SentMessage)
const isMessageId = Schema.is(MessageId)

/** Decodes the message of a caller to a run, with an id and the time. The error does not repeat the input. */
export const decodeMessage = (
  input: MessageInput,
  now: Timestamp,
  runId: RunId
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
  const { ends, reopens, to } = input
  // The run could not be loaded: it has no such sub-agent.
  if (typeof to === "string" && !isRunWithin(to, runId))
    return refuse("its `to` is not the id of a run inside this one")
  return Result.mapError(
    decode({ messageId, content, at: now, ...defined({ to, ends, reopens }) }),
    () =>
      new MessageInvalid({
        issues: "its content is not a list of text and file parts, or its `to` is not the id of a run"
      })
  )
}

const madeId = (): string => `m_${globalThis.crypto.randomUUID().replaceAll("-", "")}`

/** Whether a run with this status accepts a message. A failed run accepts the end of a sub-agent, since it may be resumed. */
export const isSentTo = (status: Status, { ends }: SentMessage): boolean =>
  isGoing(status) || (ends === true && isCancellable(status))

/** The messages that events of the run, or of a sub-agent in it, add to the journal. Most batches add none. */
export const takenBy = (events: ReadonlyArray<RunEvent>): ReadonlyArray<Receipt> => {
  const taken: Array<Receipt> = []
  for (const wrapped of events) {
    const event = wrapped._tag === "child.advanced" ? unwrap(wrapped).event : wrapped
    if (event._tag !== "message.queued" || event.messageId === undefined) continue
    taken.push({ messageId: event.messageId, at: event.at })
  }
  return taken
}

/** Distinguishes a message from another one with its id, also after the journal contains it. */
export const digestOf = ({
  content,
  ends,
  reopens
}: Pick<SentMessage, "content" | "ends" | "reopens">): string => {
  const said = [content as ReadonlyArray<Schema.Json>, ends === true] as const
  // Other messages keep the digest that earlier versions stored. A repeated reopening has a time of its own.
  const { at: _, ...reopening } = reopens ?? { at: 0 }
  const text = canonicalJson(reopens === undefined ? [...said] : [...said, reopening as Schema.Json])
  return `${text.length}.${fingerprint(text)}`
}

/**
 * The refusal of a message whose id another message of the run has. Without it, the second message would be dropped as a repetition. A
 * message without a digest was stored by an earlier version, or was never sent.
 */
export const idConflict = (
  known: { readonly to?: string; readonly digest?: string },
  sent: SentMessage
): MessageInvalid | undefined => {
  if (known.to !== sent.to) {
    return new MessageInvalid({ issues: "its messageId is that of a message to another agent of the run" })
  }
  return known.digest === undefined || known.digest === digestOf(sent)
    ? undefined
    : new MessageInvalid({ issues: otherContent })
}

/** The problem of a message with the id of one with other content. */
export const otherContent =
  "its messageId is that of another message, with other content: give it an id of its own"

/** The messages of a run in memory by id, in the order in which they were sent. A message in the journal has no content here. */
export type Mail = ReadonlyMap<string, Kept>

type Kept = Omit<SentMessage, "messageId" | "content"> & {
  readonly content?: ReadonlyArray<UserPart>
  readonly digest?: string
}

/** A message with the digest of its content, instead of the content. */
export const withDigest = ({ content, ...rest }: Kept): Kept =>
  content === undefined
    ? rest
    : { ...rest, digest: digestOf({ content, ...defined({ ends: rest.ends, reopens: rest.reopens }) }) }

/** Applies a batch of events to the messages. Fails with the id of a message that the journal already contains. */
export const mailAfter = (mail: Mail, events: ReadonlyArray<RunEvent>): Result.Result<Mail, string> => {
  const taken = takenBy(events)
  if (taken.length === 0) return Result.succeed(mail)
  const next = new Map(mail)
  for (const { at, messageId } of taken) {
    const known = next.get(messageId)
    if (known !== undefined && known.content === undefined) return Result.fail(messageId)
    next.set(messageId, known === undefined ? { at } : withDigest(known))
  }
  return Result.succeed(next)
}

/** The messages that the journal does not contain, oldest first. */
export const waiting = (mail: Mail): ReadonlyArray<SentMessage> =>
  Array.from(mail).flatMap(([messageId, { content, ...rest }]) =>
    content === undefined ? [] : [{ messageId, content, ...rest }]
  )
