/**
 * The rows of a journal: one batch of events for each append, as JSON text. All stores use them, including the memory store.
 */
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import type { RunId } from "../../domain/Id.ts"
import { asReferences } from "../../domain/internal/files.ts"
import { type RunEvent, RunEvents } from "../../domain/RunEvent.ts"
import type { Status } from "../../domain/RunState.ts"
import { decodeEvents } from "../../domain/RunStateCodec.ts"
import { RunStoreError, StoreUnreadable } from "../RunStoreError.ts"
import { isGoing } from "./requests.ts"

/** The row of one append. */
export interface Batch {
  readonly runId: RunId
  /** The number of events before it: the revision at which it was appended. */
  readonly sequence: number
  readonly count: number
  readonly version: number
  /** The list of events as JSON text. */
  readonly text: string
}

/** Decodes the events of a batch. Fails with `StoreUnreadable` if the batch is damaged or was written by a newer version. */
const decodeBatch = (
  batch: Batch,
  operation: string
): Result.Result<ReadonlyArray<RunEvent>, RunStoreError> => {
  const events = decodeEvents(batch.text, batch.version)
  if (Result.isSuccess(events) && events.success.length === batch.count) return Result.succeed(events.success)
  const why =
    Result.isFailure(events) && events.failure._tag === "RunStateTooNew"
      ? `was written by a newer version of Fermata (journal version ${batch.version}): update, then read it again`
      : "is damaged: restore the store from a backup, or remove the run"
  const detail = `the journal of ${batch.runId} at revision ${batch.sequence} ${why}.`
  return Result.fail(unreadable(operation, detail))
}

/** The events of a run's batches from revision `from` (inclusive) to revision `to` (exclusive). */
export const sliceBatches = (
  batches: ReadonlyArray<Batch>,
  range: { readonly from: number; readonly to: number },
  operation: string
): Result.Result<ReadonlyArray<RunEvent>, RunStoreError> => {
  const events: Array<RunEvent> = []
  for (const batch of batches) {
    const first = Math.max(0, range.from - batch.sequence)
    const last = Math.min(batch.count, range.to - batch.sequence)
    if (first >= last) continue
    const decoded = decodeBatch(batch, operation)
    if (Result.isFailure(decoded)) return Result.fail(decoded.failure)
    for (let index = first; index < last; index += 1) {
      const event = decoded.success[index]
      if (event !== undefined) events.push(event)
    }
  }
  return Result.succeed(events)
}

/** The agent that has the conversation after these events, or `undefined` if they do not change it. Handoffs among sub-agents do not count. */
export const answererIn = (events: ReadonlyArray<RunEvent>): string | undefined =>
  events.findLast((event) => event._tag === "agent.changed" || event._tag === "run.started")?.agent.name

/** Whether events resume a run, which may have ended, and leave it unfinished. */
export const isTakingUp = (events: ReadonlyArray<RunEvent>, status: Status): boolean =>
  isGoing(status) && events.some(({ _tag }) => _tag === "run.resumed")

/** Whether a journal begins with these events. The order of an event's fields does not matter. */
export const startsWith = (journal: ReadonlyArray<RunEvent>, events: ReadonlyArray<RunEvent>): boolean =>
  journal.length >= events.length && sameEvents(journal.slice(0, events.length), events)

/** A file with its bytes, as earlier versions stored it, equals a reference to them. */
const sameEvents = (one: ReadonlyArray<RunEvent>, other: ReadonlyArray<RunEvent>): boolean => {
  const equal = Schema.toEquivalence(RunEvents)
  return equal(one, other) || equal(one.map(asReferences), other.map(asReferences))
}

/** The error for a journal whose rows do not match the head of its run. */
export const damaged = (runId: RunId, operation: string): RunStoreError =>
  unreadable(
    operation,
    `the journal of ${runId} has a gap: restore the store from a backup, or remove the run.`
  )

/** The error for a part of the store that cannot be read. */
export const unreadable = (operation: string, detail: string): RunStoreError =>
  new RunStoreError({ operation, reason: new StoreUnreadable({ detail }) })
