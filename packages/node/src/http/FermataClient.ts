/**
 * The typed client of the HTTP interface: a front end uses it as it uses a control plane of its own process.
 *
 * Events continue by themselves after a lost connection, from the last one that was received, also when the server was started again. This
 * module needs only `fetch`, so it works in browsers, too.
 *
 * @since 0.2.0
 */
import type { Acknowledgement } from "@fermata/sdk/control/Acknowledgement"
import type { CommandRejection } from "@fermata/sdk/control/CommandRejection"
import * as EventCursor from "@fermata/sdk/control/EventCursor"
import type { RuntimeCommand } from "@fermata/sdk/control/RuntimeCommand"
import * as RuntimeEventEnvelope from "@fermata/sdk/control/RuntimeEventEnvelope"
import type { RuntimeSnapshot } from "@fermata/sdk/control/RuntimeSnapshot"
import type { Decision } from "@fermata/sdk/domain/Decision"
import type { Message } from "@fermata/sdk/domain/Message"
import type { Rejection } from "@fermata/sdk/domain/Rejection"
import type { EmptyPrompt, RevisionNotFound, RunEnded } from "@fermata/sdk/domain/RunError"
import type { MessageInvalid, RunBusy, RunNotFound } from "@fermata/sdk/store/RunStoreError"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Sse from "effect/encoding/Sse"
import * as HttpApiClient from "effect/http-api/HttpApiClient"
import * as HttpClient from "effect/http/HttpClient"
import type { HttpClientError } from "effect/http/HttpClientError"
import * as HttpClientRequest from "effect/http/HttpClientRequest"
import type { HttpClientResponse } from "effect/http/HttpClientResponse"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Result from "effect/Result"
import * as Schedule from "effect/Schedule"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import type * as Api from "./ApiModel.ts"
import { FermataApi } from "./FermataApi.ts"
import { RequestRefused } from "./RequestRefused.ts"

/** Where the server is, and the token that it printed or handed out. */
export interface ClientOptions {
  readonly url: string
  readonly token?: string | undefined
}

/** The errors of requests: those of the server, with their classes, and those of the connection. */
export type ClientError = HttpClientError | RequestRefused | Schema.SchemaError

/** The errors of requests about runs and sessions. */
export type RunRequestError =
  | ClientError
  | EmptyPrompt
  | MessageInvalid
  | RevisionNotFound
  | RunBusy
  | RunEnded
  | RunNotFound

/** The errors of the events: a refusal of the server, or an event of another version. A lost connection is none. */
export type EventsError =
  | RequestRefused
  | RuntimeEventEnvelope.EnvelopeVersionUnknown
  | RuntimeEventEnvelope.EnvelopeMalformed

/** A client. */
export interface Shape {
  /** Submits a command. With a `commandId`, a repetition after a lost connection is not taken twice. */
  readonly submit: (command: RuntimeCommand) => Effect.Effect<Acknowledgement, CommandRejection | ClientError>
  /**
   * The events from the number `from` (default: 1), or after a cursor, until the runtime has stopped. Continues after a lost connection. After a
   * restart of the server, durable events may repeat, with the same `journal`.
   */
  readonly events: (
    from?: number | EventCursor.EventCursor
  ) => Stream.Stream<RuntimeEventEnvelope.RuntimeEventEnvelope, EventsError>
  /** The state of the runtime. */
  readonly snapshot: Effect.Effect<RuntimeSnapshot, ClientError>
  /** Lists runs, the newest first. */
  readonly runs: (query?: Api.RunsQuery) => Effect.Effect<ReadonlyArray<Api.RunSummary>, RunRequestError>
  readonly run: (runId: string) => Effect.Effect<Api.RunSummary, RunRequestError>
  /** Reads messages of the session of a run. */
  readonly messages: (
    runId: string,
    page?: Api.MessagesQuery
  ) => Effect.Effect<ReadonlyArray<Message>, RunRequestError>
  /** Requests that a run is cancelled. */
  readonly cancel: (runId: string, reason?: string) => Effect.Effect<void, RunRequestError>
  /** Starts a run of its own session from an earlier revision of a run, and returns its id. */
  readonly fork: (runId: string, fork: Api.ForkPayload) => Effect.Effect<string, RunRequestError>
  /** Sends a message to a run. */
  readonly send: (
    runId: string,
    message: Api.SendPayload
  ) => Effect.Effect<Api.MessageReceipt, RunRequestError>
  /** Lists sessions, the newest first. */
  readonly sessions: (
    query?: Api.SessionsQuery
  ) => Effect.Effect<ReadonlyArray<Api.StoredSession>, RunRequestError>
  /** Reads messages of a session. */
  readonly sessionMessages: (
    sessionId: string,
    page?: Api.MessagesQuery
  ) => Effect.Effect<ReadonlyArray<Message>, RunRequestError>
  /** Lists the open requests of all runs, the oldest first. */
  readonly inbox: (
    query?: Api.InboxQuery
  ) => Effect.Effect<ReadonlyArray<Api.InboxItem>, Rejection | ClientError>
  /** Decides a request, of whichever run. `AlreadyDecided` names the author of the decision that was first. */
  readonly decide: (
    requestId: string,
    decision: Api.DecisionPayload
  ) => Effect.Effect<Decision, Rejection | ClientError>
  /** Decides several requests, all or none. */
  readonly decideAll: (
    decisions: Api.DecisionsPayload["decisions"]
  ) => Effect.Effect<ReadonlyArray<Decision>, Rejection | ClientError>
}

/**
 * The client as a service.
 *
 * @category services
 * @since 0.2.0
 */
export class FermataClient extends Context.Service<FermataClient, Shape>()(
  "@fermata/node/http/FermataClient"
) {}

/**
 * Makes a client on the `HttpClient` of the context, such as that of `FetchHttpClient.layer`.
 *
 * @category constructors
 * @since 0.2.0
 */
export const make = Effect.fnUntraced(function* ({
  token,
  url
}: ClientOptions): Effect.fn.Return<Shape, never, HttpClient.HttpClient> {
  const http = HttpClient.mapRequest(yield* HttpClient.HttpClient, (request) =>
    token === undefined ? request : HttpClientRequest.bearerToken(request, token)
  )
  const client = yield* HttpApiClient.makeWith(FermataApi, { httpClient: http, baseUrl: url })
  const { control, inbox, runs, sessions } = client
  const shape = {
    submit: (payload: RuntimeCommand) => control.submit({ payload }),
    events: (from: number | EventCursor.EventCursor = 1) => eventsOf(http, url, from),
    snapshot: control.snapshot(),
    runs: (query: Api.RunsQuery = {}) => runs.list({ query }),
    run: (runId: string) => runs.get({ params: { runId: runId as never } }),
    messages: (runId: string, query: Api.MessagesQuery = {}) =>
      runs.messages({ params: { runId: runId as never }, query }),
    cancel: (runId: string, reason?: string) =>
      Effect.asVoid(
        runs.cancel({
          params: { runId: runId as never },
          payload: reason === undefined ? {} : { reason }
        })
      ),
    fork: (runId: string, payload: Api.ForkPayload) =>
      Effect.map(runs.fork({ params: { runId: runId as never }, payload }), (fork) => fork.runId),
    send: (runId: string, payload: Api.SendPayload) =>
      runs.send({ params: { runId: runId as never }, payload }),
    sessions: (query: Api.SessionsQuery = {}) => sessions.list({ query }),
    sessionMessages: (sessionId: string, query: Api.MessagesQuery = {}) =>
      sessions.messages({ params: { sessionId: sessionId as never }, query }),
    inbox: (query: Api.InboxQuery = {}) => inbox.list({ query }),
    decide: (requestId: string, payload: Api.DecisionPayload) =>
      inbox.decide({ params: { requestId: requestId as never }, payload }),
    decideAll: (decisions: Api.DecisionsPayload["decisions"]) => inbox.decideAll({ payload: { decisions } })
  }
  // The errors of each endpoint are wider than those of its handler: the statuses are listed once for a group.
  return shape as unknown as Shape
})

/**
 * The layer of a client.
 *
 * @category layers
 * @since 0.2.0
 */
export const layer = (options: ClientOptions): Layer.Layer<FermataClient, never, HttpClient.HttpClient> =>
  Layer.effect(FermataClient, make(options))

/** A connection that ended before the events did. */
interface Lost {
  readonly _tag: "Lost"
}

const lost: Lost = { _tag: "Lost" }

/** The waits between connections: from 250 milliseconds to 5 seconds, each different, so that clients do not come back together. */
const reconnecting = Schedule.jittered(
  Schedule.min([Schedule.exponential("250 millis"), Schedule.spaced("5 seconds")])
)

const decodeRefusal = Schema.decodeUnknownOption(RequestRefused)

type Envelope = RuntimeEventEnvelope.RuntimeEventEnvelope

/** An envelope, with the cursor after it. */
interface Received {
  readonly id: string | undefined
  readonly envelope: Envelope
}

const eventsOf = (
  http: HttpClient.HttpClient,
  url: string,
  from: number | EventCursor.EventCursor
): Stream.Stream<Envelope, EventsError> =>
  Stream.suspend(() => {
    const first = typeof from === "number" ? from : 1
    let lastId = typeof from === "number" ? undefined : EventCursor.encode(from)
    let isOver = false
    const connection = Stream.unwrap(
      Effect.map(
        Effect.suspend(() => connect(http, url, first, lastId)),
        (response) => {
          if (response.status !== 204) return receivedOf(response)
          isOver = true
          return Stream.empty
        }
      )
    )
    const untilLost = Stream.concat(
      Stream.map(connection, ({ envelope, id }) => {
        lastId = id ?? lastId
        if (envelope.event._tag === "lifecycle.stopped") isOver = true
        return envelope
      }),
      Stream.suspend(() => (isOver ? Stream.empty : Stream.fail(lost)))
    )
    const continued = Stream.retry(untilLost, ($) =>
      Schedule.while($(reconnecting), ({ input }) => input._tag === "Lost")
    )
    return Stream.catchTag(continued, "Lost", () => Stream.empty)
  })

/** Opens a connection. Fails with `Lost` if there is none, or if the server cannot answer now, so that another one is tried. */
const connect = (
  http: HttpClient.HttpClient,
  url: string,
  from: number,
  lastId: string | undefined
): Effect.Effect<HttpClientResponse, RequestRefused | Lost> => {
  const request = HttpClientRequest.get(`${url}/v1/events`).pipe(
    lastId === undefined
      ? HttpClientRequest.setUrlParam("from", String(from))
      : HttpClientRequest.setHeader("last-event-id", lastId)
  )
  return Effect.flatMap(
    Effect.mapError(http.execute(request), () => lost),
    (response): Effect.Effect<HttpClientResponse, RequestRefused | Lost> => {
      const { status } = response
      if (status === 200 || status === 204) return Effect.succeed(response)
      if (status === 429 || status >= 500) return Effect.fail(lost)
      return Effect.flatMap(
        Effect.orElseSucceed(response.json, () => undefined),
        (body) => Effect.fail(Option.getOrElse(decodeRefusal(body), () => unknownRefusal(status)))
      )
    }
  )
}

const unknownRefusal = (status: number): RequestRefused =>
  new RequestRefused({
    status,
    reason: "Unknown",
    problem: `The server answered with the status ${status}: check its address.`
  })

/** The envelopes of a connection. Events that this version does not know are left out. */
const receivedOf = (response: HttpClientResponse): Stream.Stream<Received, EventsError | Lost> =>
  Stream.suspend(() => {
    let messages: Array<Sse.Event> = []
    const parser = Sse.makeParser((message) => {
      if (message._tag === "Event") messages.push(message)
    })
    return response.stream.pipe(
      Stream.mapError(() => lost),
      Stream.decodeText,
      Stream.mapEffect((text) => {
        messages = []
        return parser.feed(text) === undefined ? receivedFrom(messages) : Effect.fail(lost)
      }),
      Stream.flattenIterable
    )
  })

const receivedFrom = (
  messages: ReadonlyArray<Sse.Event>
): Effect.Effect<ReadonlyArray<Received>, EventsError | Lost> => {
  const received: Array<Received> = []
  for (const { data, event, id } of messages) {
    if (event === "error") return Effect.fail(lost)
    const json = Result.try(() => JSON.parse(data) as unknown)
    if (Result.isFailure(json)) return Effect.fail(lost)
    const decoded = RuntimeEventEnvelope.decode(json.success)
    if (Result.isFailure(decoded)) return Effect.fail(decoded.failure)
    if (decoded.success !== undefined) received.push({ id, envelope: decoded.success })
  }
  return Effect.succeed(received)
}
