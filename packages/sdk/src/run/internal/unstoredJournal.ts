/**
 * The journal of a run without a store: the caller keeps the state, and the mailbox delivers the mail.
 */
import * as Effect from "effect/Effect"
import type { Mailbox } from "../Mailbox.ts"
import type { Journal, News } from "./Journal.ts"

const parked = Effect.succeed(true)

const noNews = Effect.succeed<News>({})

const notListening = () => {}

const keptByCaller: Journal = {
  keepsNothing: true,
  append: () => noNews,
  park: () => parked,
  mail: (expired) => Effect.sync(() => ({ decisions: expired(), messages: [] })),
  requireFitting: () => Effect.void,
  decide: undefined,
  isTokenTaken: () => Effect.succeed(false),
  onMail: () => notListening,
  news: noNews,
  renewLease: Effect.succeed({}),
  isStale: () => false,
  isBroken: () => false
}

/** Makes the journal of a run without a store. */
export const noJournal = (mailbox: Mailbox | undefined): Journal =>
  mailbox === undefined
    ? keptByCaller
    : {
        ...keptByCaller,
        keepsNothing: undefined,
        append: () => Effect.succeed({ hasMail: !mailbox.isEmpty() }),
        park: () => Effect.sync(mailbox.isEmpty),
        mail: (expired) =>
          Effect.sync(() => {
            const { decisions, messages } = mailbox.take()
            const taken = new Set(decisions.map(({ requestId }) => requestId))
            const late = expired().filter(({ requestId }) => !taken.has(requestId))
            return { decisions: [...decisions, ...late], messages }
          }),
        decide: (decision) => Effect.ignore(mailbox.decide(decision)),
        onMail: mailbox.onMail
      }
