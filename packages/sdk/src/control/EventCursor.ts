/**
 * Cursors: the place of a subscriber in the events of a runtime, also as a text, such as the `id` of a server-sent event.
 *
 * In the runtime that published the events, the cursor's epoch and `seq` are the place. Another runtime of the same store, after a restart
 * or on another server, does not know the epoch. It uses the cursor's revisions, which say how far the subscriber has read the journal of
 * each task that has not ended: it first reads what these journals hold after the revisions, then announces its own epoch with
 * `lifecycle.started`, and continues with live events. A revision advances only at an event that was published after its commit, so that a
 * crash loses none. The durable events after the last such event may arrive twice; their `journal` identifies them.
 *
 * @since 0.2.0
 */
import * as Schema from "effect/Schema"
import { RunId } from "../domain/Id.ts"
import { isTerminal } from "./RuntimeEvent.ts"
import type { RuntimeEventEnvelope } from "./RuntimeEventEnvelope.ts"

/**
 * The place of a subscriber. `revisions` has, by the id of each task that has not ended, the number of events of its journal that the
 * subscriber has.
 */
export const EventCursor = Schema.Struct({
  epoch: Schema.String,
  seq: Schema.Natural,
  revisions: Schema.Record(Schema.String, Schema.Natural)
})
export type EventCursor = typeof EventCursor.Type

/** The place before the first event of an epoch. */
export const start = (epoch: string): EventCursor => ({ epoch, seq: 0, revisions: {} })

/** The place after an envelope that the subscriber has received. */
export const advance = (cursor: EventCursor, envelope: RuntimeEventEnvelope): EventCursor => {
  const { event, replayed } = envelope
  const revisions = revisionsAfter(cursor.revisions, envelope)
  // The events that are read again precede this one, so that a subscriber which loses its connection among them reads the rest later.
  if (event._tag === "lifecycle.started") return { epoch: event.epoch, seq: envelope.seq, revisions }
  return { ...cursor, seq: replayed === true ? cursor.seq : envelope.seq, revisions }
}

const revisionsAfter = (
  revisions: EventCursor["revisions"],
  { event, journal }: RuntimeEventEnvelope
): EventCursor["revisions"] => {
  const isOver = isTerminal(event) && event._tag !== "task.suspended"
  if (isOver && "taskId" in event && event.taskId !== undefined) return without(revisions, event.taskId)
  return journal?.committed === true && journal.revision !== revisions[journal.runId]
    ? { ...revisions, [journal.runId]: journal.revision }
    : revisions
}

const without = (revisions: EventCursor["revisions"], runId: string): EventCursor["revisions"] =>
  Object.fromEntries(Object.entries(revisions).filter(([id]) => id !== runId))

/** The text of a cursor: the epoch, the `seq`, and `runId=revision` for each task, separated by `;`. */
export const encode = ({ epoch, revisions, seq }: EventCursor): string =>
  [`${epoch}.${seq}`, ...Object.entries(revisions).map(([runId, revision]) => `${runId}=${revision}`)].join(
    ";"
  )

const isRunId = Schema.is(RunId)
const headForm = /^([A-Za-z0-9_-]{1,64})\.(\d{1,15})$/
const revisionForm = /^([^=]+)=(\d{1,15})$/

/** The most tasks that a cursor may name. */
const mostTasks = 1000

/** Reads the text of a cursor; `undefined` if the text is not a cursor. The text comes from a client, so each part of it is checked. */
export const decode = (text: string): EventCursor | undefined => {
  if (typeof text !== "string") return undefined
  const [first = "", ...rest] = text.split(";", mostTasks + 2)
  const head = headForm.exec(first)
  if (head === null || rest.length > mostTasks) return undefined
  const revisions: Record<string, number> = Object.create(null)
  for (const piece of rest) {
    const found = revisionForm.exec(piece)
    if (found === null || !isRunId(found[1])) return undefined
    revisions[found[1]] = Number(found[2])
  }
  return { epoch: head[1]!, seq: Number(head[2]), revisions: { ...revisions } }
}
