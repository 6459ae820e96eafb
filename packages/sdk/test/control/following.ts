/**
 * Follows the events of a control plane in tests.
 */
import { assert } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Stream from "effect/Stream"
import type * as ControlPlane from "../../src/control/ControlPlane.ts"
import { isTerminal, type RuntimeEvent } from "../../src/control/RuntimeEvent.ts"
import type { RuntimeEventEnvelope } from "../../src/control/RuntimeEventEnvelope.ts"

export type Tag = RuntimeEvent["_tag"]

/** Waits for the first event, of all of the epoch or of those after `from`, that the predicate accepts. */
export const untilEvent = (
  plane: ControlPlane.Shape,
  is: Tag | ((event: RuntimeEvent) => boolean),
  from = 1
): Effect.Effect<RuntimeEventEnvelope> => {
  const accepts = typeof is === "function" ? is : ({ _tag }: RuntimeEvent) => _tag === is
  return plane.events(from).pipe(
    Stream.filter(({ event }) => accepts(event)),
    Stream.runHead,
    Effect.flatMap(Effect.fromOption),
    Effect.orDie
  )
}

/** The events from the beginning up to now. */
export const eventsSoFar = (plane: ControlPlane.Shape): Effect.Effect<ReadonlyArray<RuntimeEventEnvelope>> =>
  Effect.gen(function* () {
    const { seq } = yield* plane.snapshot
    const read: Array<RuntimeEventEnvelope> = []
    yield* plane.events().pipe(
      Stream.takeUntil((envelope) => envelope.seq >= seq),
      Stream.runForEach((envelope) => Effect.sync(() => read.push(envelope)))
    )
    return read
  }).pipe(Effect.orDie)

export const tagsSoFar = (plane: ControlPlane.Shape) =>
  Effect.map(eventsSoFar(plane), (envelopes) => envelopes.map(({ event }) => event._tag))

/** Waits until the session of the plane has saved a task after `from`: its actor has taken note of the task's end. */
export const untilSaved = (plane: ControlPlane.Shape, from = 1) => untilEvent(plane, "session.saved", from)

/** The problems of a timeline with respect to order, numbering and terminal events. Empty if there are none. */
export const problemsOf = (
  timeline: ReadonlyArray<RuntimeEventEnvelope>,
  first = 1
): ReadonlyArray<string> => {
  const problems: Array<string> = []
  let last = first - 1
  const started = new Set<string>()
  const ended = new Map<string, string>()
  const approved = new Set<string>()
  const asked = new Set<string>()
  for (const { event, merged = 1, seq } of timeline) {
    if (seq - merged !== last) problems.push(`${seq} (merged ${merged}) follows ${last}`)
    last = seq
    if (!("turn" in event)) continue
    const { taskId } = event
    if (ended.has(taskId)) problems.push(`${seq}: ${event._tag} after ${ended.get(taskId)} of ${taskId}`)
    if (isTerminal(event)) ended.set(taskId, event._tag)
    if (event._tag === "task.started") {
      if (started.has(taskId)) problems.push(`${seq}: ${taskId} starts twice`)
      started.add(taskId)
    }
    const isOfWork = event.family === "Model" || event.family === "Tool" || event.family === "Metrics"
    if (isOfWork && !started.has(taskId)) problems.push(`${seq}: ${event._tag} before the start of ${taskId}`)
    if (event._tag === "tool.approvalRequired" && "callId" in event.request) asked.add(event.request.callId)
    if (event._tag === "tool.approvalSettled" && event.callId !== undefined) approved.add(event.callId)
    if (event._tag === "tool.started" && asked.has(event.callId) && !approved.has(event.callId))
      problems.push(`${seq}: ${event.callId} runs before its approval`)
  }
  for (const taskId of started) if (!ended.has(taskId)) problems.push(`${taskId} has no terminal event`)
  return problems
}

/** A line for each event, for the message of a failed test. */
export const linesOf = (timeline: ReadonlyArray<RuntimeEventEnvelope>): string =>
  timeline
    .map(
      ({ event, merged, seq }) =>
        `${seq}${merged === undefined ? "" : ` (${merged})`} ${JSON.stringify(event)}`
    )
    .join("\n")

export const assertSound = (timeline: ReadonlyArray<RuntimeEventEnvelope>, first = 1): void => {
  const problems = problemsOf(timeline, first)
  assert.deepStrictEqual(problems, [], `${problems.join("\n")}\n${linesOf(timeline)}`)
}
