/**
 * Everything that must hold for stored runs, seen from outside.
 *
 * Give it the journals, what the store's inbox says, and what the tools wrote down about their own effects; it says which
 * promises were broken, and how. Pure and without a store, so that a test of your own, a crash campaign or a nightly look at
 * production data can use it. It trusts no field that the runtime derives: it counts effects, decisions and results itself.
 *
 * @since 0.1.0
 */
import { line } from "../domain/Display.ts"
import type { Evidence, Violation } from "./Evidence.ts"
import { checkEffects } from "./internal/checker/effects.ts"
import { checkAcknowledged, checkInbox } from "./internal/checker/inbox.ts"
import { readJournals } from "./internal/checker/readJournal.ts"

export type {
  Acknowledged,
  Effect,
  Evidence,
  Inbox,
  Invariant,
  Journal,
  Reconciliation,
  Violation
} from "./Evidence.ts"

/**
 * Checks everything that there is evidence for. An empty list is what you want.
 *
 * @category checking
 * @since 0.1.0
 */
export const check = (evidence: Evidence): ReadonlyArray<Violation> => {
  const { ledgers, violations } = readJournals(evidence)
  const found = [
    ...violations,
    ...checkEffects(evidence, ledgers),
    ...(evidence.inbox === undefined ? [] : checkInbox(evidence.inbox, ledgers)),
    ...(evidence.acknowledged === undefined
      ? []
      : checkAcknowledged(evidence.acknowledged, evidence, ledgers)),
    ...checkSecrets(evidence)
  ]
  return found.map((violation) => ({ ...violation, detail: line(violation.detail) }))
}

const checkSecrets = ({ secrets }: Evidence): ReadonlyArray<Violation> =>
  secrets === undefined
    ? []
    : secrets.values.flatMap((value, index) =>
        secrets.texts.some((text) => text.includes(value))
          ? [{ invariant: "secret", runId: undefined, detail: `secret number ${index + 1} is in a text` }]
          : []
      )
