/**
 * Cursors: the place of a subscriber in the events of a runtime, as a text such as the `id` of a server-sent event.
 *
 * While the runtime lives, the cursor's epoch and `seq` are the place. In another runtime of the same store, after a restart or on another
 * server, the epoch is unknown: the cursor's revisions say how far the subscriber has read the journal of each task that had not ended. The
 * runtime then first reads again what these journals hold beyond, announces its own epoch with a `lifecycle.started`, and goes on with live
 * events. A revision is noted only after an event
 * that was published after its commit, so that a crash loses none; the durable events after the last such event may be repeated, and are
 * recognized by their `journal`.
 *
 * @since 0.2.0
 */
import * as Schema from "effect/Schema"
import { RunId } from "../domain/Id.ts"
import { isTerminal } from "./RuntimeEvent.ts"
import type { RuntimeEventEnvelope } from "./RuntimeEventEnvelope.ts"

/** The place of a subscriber. `revisions` is the number of events that it has of the journal of each task that has not ended. */
export const EventCursor = Schema.Struct({
  epoch: Schema.String,
  seq: Schema.Natural,
  revisions: Schema.Record(Schema.String, Schema.Natural)
})
export type EventCursor = typeof EventCursor.Type

/** The place before the first event of an epoch. */
export const start = (epoch: string): EventCursor => ({ epoch, seq: 0, revisions: {} })

/** The place after an envelope. */
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

/** Reads the text of a cursor; `undefined` if it is none. A text comes from a client, so nothing of it is trusted. */
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
