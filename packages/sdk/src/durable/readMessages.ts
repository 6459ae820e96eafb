/**
 * Reads the conversation of a session, across its runs, as messages to display.
 *
 * @since 0.1.0
 */
import * as Effect from "effect/Effect"
import { requireOptions } from "../agent/internal/soundOptions.ts"
import * as History from "../domain/History.ts"
import type { SessionId } from "../domain/Id.ts"
import { natural, positive, shapeOf } from "../domain/internal/misfits.ts"
import type { AssistantPart, Message, UserPart } from "../domain/Message.ts"
import type { OptionsInvalid } from "../domain/OptionsInvalid.ts"
import { isSettled, type RunState, toolMessage } from "../domain/RunState.ts"
import { pageSize } from "../store/internal/bounds.ts"
import { RunStore } from "../store/RunStore.ts"
import type { RunStoreError } from "../store/RunStoreError.ts"
import { lastState } from "./internal/lastState.ts"

/** Selects the messages of a session by their sequence numbers. */
export interface MessagesPage {
  /** Selects messages with a lower sequence number: pass that of the first message of a page to read the page before it. */
  readonly before?: number
  /** Selects messages with a higher sequence number, and then the first ones of these: pass that of the last known message. */
  readonly after?: number
  /** Page size. Default: 100. Above 1,000 counts as 1,000. */
  readonly limit?: number
}

const pageShape = shapeOf<MessagesPage>({ before: natural, after: natural, limit: positive })

/**
 * Reads a page of the messages of a session across its runs, oldest first: the last 100, or with `after` the first 100 after it; `limit`
 * sets another number. Drives nothing.
 *
 * **Details**
 *
 * The messages are those of the session's history, and the results of calls as soon as they are recorded, also while the turn is open. A
 * sent message appears when the run has taken it and no call is open. Sequence numbers have no gaps, except between the results of an open
 * turn, so a page that begins with 0 is the first one. A message with the role `user` and the origin `runtime` is from Fermata itself.
 * Parts have no provider data (`payload`). A session without runs has no messages. The requests that a held run waits for are not messages:
 * read them with `readResult`.
 *
 * **Errors**
 *
 * - `OptionsInvalid` — an option is unknown, or is not a whole number of 0 or more (`limit`: 1 or more).
 * - `RunStoreError` — the store failed, or a journal of the session is damaged; see its `reason`.
 *
 * @category running
 * @since 0.1.0
 */
export const readMessages: (
  sessionId: string,
  page?: MessagesPage
) => Effect.Effect<ReadonlyArray<Message>, OptionsInvalid | RunStoreError, RunStore> = Effect.fn(
  "fermata.readMessages"
)(function* (sessionId: string, given: MessagesPage = {}) {
  const page = yield* requireOptions("messages", given, pageShape)
  const state = yield* lastState(yield* RunStore, sessionId as SessionId)
  return state === undefined ? [] : select(conversationOf(state), page)
})

/** The history, and the results that the open turn already has. When the turn is closed, they keep their sequence numbers. */
const conversationOf = (state: RunState): ReadonlyArray<Message> => {
  const messages = History.toArray(state.history)
  const { length } = messages
  return [
    ...messages,
    ...state.calls.flatMap((call, index) =>
      isSettled(call) ? [toolMessage(call, length + index, state.startedAt)] : []
    )
  ]
}

const select = (messages: ReadonlyArray<Message>, { after, before, limit }: MessagesPage) => {
  const found = messages.filter(({ sequence }) => sequence < (before ?? Infinity) && sequence > (after ?? -1))
  const size = pageSize(limit)
  return (after === undefined ? found.slice(Math.max(0, found.length - size)) : found.slice(0, size)).map(
    withoutPayload
  )
}

/** Leaves out what only the provider reads, such as encrypted reasoning. */
const withoutPayload = (message: Message): Message =>
  ({ ...message, content: message.content.map(displayed) }) as Message

const displayed = (part: AssistantPart | UserPart): AssistantPart | UserPart => {
  if (part._tag === "file") return part
  const { payload: _payload, provider: _provider, ...rest } = part
  return rest
}
