/**
 * The events of a control plane as server-sent events.
 *
 * See https://html.spec.whatwg.org/multipage/server-sent-events.html. The `id` of each message is the cursor after its event, so that a client
 * continues from its last one, in any server of the store.
 */
import * as EventCursor from "@fermata/sdk/control/EventCursor"
import { encodeLine } from "@fermata/sdk/control/RuntimeEventEnvelope"
import * as Effect from "effect/Effect"
import * as HttpServerResponse from "effect/http/HttpServerResponse"
import * as Stream from "effect/Stream"
import { RequestRefused } from "../RequestRefused.ts"
import type { Plane } from "./Backend.ts"
import { problemOf } from "./problems.ts"

/** How long a browser waits before it connects again. */
const retryMs = 1000

const headers = {
  "cache-control": "no-store, no-transform",
  // Makes nginx pass the events on at once.
  "x-accel-buffering": "no"
}

/** The place from which a client continues: its cursor, or the number of the first event. */
const placeOf = (
  lastEventId: string | undefined,
  from: number | undefined
): Effect.Effect<number | EventCursor.EventCursor, RequestRefused> => {
  if (lastEventId === undefined || lastEventId === "") return Effect.succeed(Math.max(1, from ?? 1))
  const cursor = EventCursor.decode(lastEventId)
  return cursor === undefined
    ? Effect.fail(
        new RequestRefused({
          status: 400,
          reason: "CursorInvalid",
          problem:
            "This Last-Event-ID is no cursor of this server: read the snapshot, and the events after its seq."
        })
      )
    : Effect.succeed(cursor)
}

/** The response with the events after a place. 204, which makes a browser stop, if the plane has stopped and the client has all events. */
export const eventStream = Effect.fnUntraced(function* (
  plane: Plane,
  lastEventId: string | undefined,
  from: number | undefined
) {
  const place = yield* placeOf(lastEventId, from)
  const { seq, status } = yield* plane.snapshot
  const known = typeof place === "number" ? place - 1 : place.epoch === plane.epoch ? place.seq : -1
  if (status === "stopped" && known >= seq) return HttpServerResponse.empty({ status: 204 })
  const frames = Stream.suspend(() => {
    let cursor = typeof place === "number" ? EventCursor.start(plane.epoch) : place
    return Stream.mapArray(plane.events(place), (envelopes) => {
      let text = ""
      for (const envelope of envelopes) {
        cursor = EventCursor.advance(cursor, envelope)
        text += `id: ${EventCursor.encode(cursor)}\ndata: ${encodeLine(envelope)}\n\n`
      }
      return [text]
    })
  })
  // Without a terminal event, the client connects again.
  const orError = Stream.catch(frames, (error) => Stream.succeed(errorFrame(error)))
  const body = Stream.concat(Stream.succeed(`retry: ${retryMs}\n\n`), orError)
  return HttpServerResponse.stream(Stream.encodeText(body), {
    contentType: "text/event-stream",
    headers
  })
})

const errorFrame = (error: unknown): string =>
  `event: error\ndata: ${JSON.stringify(problemOf(error).body)}\n\n`
