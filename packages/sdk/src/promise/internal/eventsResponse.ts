/**
 * The updates of a run as a web-standard response with server-sent events: `eventsResponse` of a Fermata.
 *
 * See https://html.spec.whatwg.org/multipage/server-sent-events.html.
 */
import * as Duration from "effect/Duration"
import type { RunUpdate } from "../../agent/RunUpdate.ts"
import type { RunId } from "../../domain/Id.ts"
import type { Status } from "../../domain/RunState.ts"
import { RunNotFound, RunStoreError } from "../../store/RunStoreError.ts"
import { displayedUpdate } from "./displayedUpdate.ts"
import { FermataClosed } from "./FermataClosed.ts"
import type { EventsOptions, EventsResponseOptions } from "./options.ts"
import { eventsResponseShape, requireKnown } from "./shapes.ts"

/** The parts of a Fermata that a response needs. */
interface Source {
  readonly events: (runId: RunId, options: EventsOptions) => AsyncIterable<RunUpdate>
  /** Reads the status and the number of events of a run, or of a sub-agent's run. Rejects with `RunNotFound`. */
  readonly standing: (runId: RunId) => Promise<{ readonly status: Status; readonly revision: number }>
  /** Logs why events could not be read. The promise of the response has already resolved. */
  readonly report: (runId: RunId, error: unknown) => void
}

/** Makes the method that responds with the updates of a run. */
export const makeEventsResponse =
  ({ events, report, standing }: Source) =>
  async (runId: string, given: EventsResponseOptions = {}): Promise<Response> => {
    requireKnown("eventsResponse", given, eventsResponseShape)
    const { heartbeat = "15 seconds", request, until = "end" } = given
    // A client that reconnects has the events up to its last one, also if it began behind `from`.
    const from = Math.max(given.from ?? 0, positionOf(request))
    const signal = given.signal ?? request?.signal
    const id = runId as RunId
    const isOver = (status: Status) => status !== "running" && (status !== "held" || until === "hold")
    const now = await standing(id)
    // The status that makes a browser stop reconnecting.
    if (from > 0 && from >= now.revision && isOver(now.status)) return new Response(null, { status: 204 })

    const updates = events(id, { from, until, ...(signal === undefined ? {} : { signal }) })
    const reader = updates[Symbol.asyncIterator]()
    const next = async (): Promise<Frame> => {
      try {
        const read = await reader.next()
        if (read.done !== true) return { text: frameOf(read.value) }
        const { status } = await standing(id)
        return { text: isOver(status) ? endOf(status) : "", isLast: true }
      } catch (error) {
        // Without a last message, the client reconnects, and reaches another process.
        if (error instanceof FermataClosed) return { text: "", isLast: true }
        if (error instanceof RunNotFound) return { text: endOf("removed"), isLast: true }
        report(id, error)
        // An errored body would end a program whose server does not expect it.
        return { text: errorOf(error), isLast: true }
      }
    }
    return new Response(
      bodyOf(next, () => reader.return?.(), heartbeat),
      { headers }
    )
  }

/** The text of one message. */
interface Frame {
  readonly text: string
  readonly isLast?: boolean
}

const headers = {
  "content-type": "text/event-stream; charset=utf-8",
  "cache-control": "no-cache, no-transform",
  // Makes nginx pass the events on at once.
  "x-accel-buffering": "no"
}

/** The number of events that a reconnecting client has; 0 if the header is absent or is none of ours. */
const positionOf = (request: EventsResponseOptions["request"]): number => {
  const { headers = {} } = request ?? {}
  const given = isHeaders(headers) ? headers.get("last-event-id") : headers["last-event-id"]
  return typeof given === "string" && /^\d{1,15}$/.test(given) ? Number(given) : 0
}

const isHeaders = (headers: object): headers is Pick<Headers, "get"> =>
  "get" in headers && typeof headers.get === "function"

/** The message of an update. Only events have ids, because only they can be sent again. */
const frameOf = (update: RunUpdate): string => {
  const id = update._tag === "event" ? `id: ${update.revision}\n` : ""
  return `${id}data: ${JSON.stringify(displayedUpdate(update))}\n\n`
}

const endOf = (status: Status | "removed"): string => `event: end\ndata: ${JSON.stringify({ status })}\n\n`

/** The message of an error. Its sentence, if it is an error of Fermata, is for a user to read. */
const errorOf = (error: unknown): string => {
  const said = error instanceof RunStoreError ? { code: error.code, message: error.message } : {}
  return `event: error\ndata: ${JSON.stringify({ message: "The events cannot be read.", ...said })}\n\n`
}

const beat = ": \n\n"

/** The longest delay of a timer. A longer one would fire at once. */
const longestDelay = 2 ** 31 - 1

/** Sends frames as the client reads them, and a comment whenever none was sent for some time, so that no proxy closes the connection. */
const bodyOf = (
  next: () => Promise<Frame>,
  leave: () => unknown,
  heartbeat: Duration.Input
): ReadableStream<Uint8Array> => {
  const encoder = new TextEncoder()
  const pause = Math.min(longestDelay, Math.max(1, Duration.toMillis(Duration.fromInputUnsafe(heartbeat))))
  let isLeft = false
  return new ReadableStream<Uint8Array>({
    // Lets the server send the headers before there is an update.
    start: (controller) => controller.enqueue(encoder.encode(beat)),
    pull: async (controller) => {
      const beating = setInterval(() => {
        if (!isLeft && (controller.desiredSize ?? 0) > 0) controller.enqueue(encoder.encode(beat))
      }, pause)
      try {
        const { isLast = false, text } = await next()
        if (isLeft) return
        if (text !== "") controller.enqueue(encoder.encode(text))
        if (isLast) controller.close()
      } finally {
        clearInterval(beating)
      }
    },
    cancel: async () => {
      isLeft = true
      await leave()
    }
  })
}
