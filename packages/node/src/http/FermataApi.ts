/**
 * The HTTP interface as an `HttpApi`: the server, the typed client and the OpenAPI document are made of it.
 *
 * Its schemas are those of commands, events, requests and decisions, so that the interface cannot differ from the in-process one.
 *
 * @since 0.2.0
 */
import { Acknowledgement } from "@fermata/sdk/control/Acknowledgement"
import { RuntimeCommand } from "@fermata/sdk/control/RuntimeCommand"
import { RuntimeEventEnvelope } from "@fermata/sdk/control/RuntimeEventEnvelope"
import { RuntimeSnapshot } from "@fermata/sdk/control/RuntimeSnapshot"
import { Decision } from "@fermata/sdk/domain/Decision"
import { RequestId, RunId, SessionId } from "@fermata/sdk/domain/Id"
import { Message } from "@fermata/sdk/domain/Message"
import * as HttpApi from "effect/http-api/HttpApi"
import * as HttpApiEndpoint from "effect/http-api/HttpApiEndpoint"
import * as HttpApiGroup from "effect/http-api/HttpApiGroup"
import * as HttpApiSchema from "effect/http-api/HttpApiSchema"
import * as OpenApi from "effect/http-api/OpenApi"
import * as Schema from "effect/Schema"
import * as Api from "./ApiModel.ts"
import { ofCommands, ofDecisions, ofRuns } from "./internal/problems.ts"

const describe = (description: string) => OpenApi.annotations({ description })

const control = HttpApiGroup.make("control")
  .add(
    HttpApiEndpoint.post("submit", "/commands", {
      payload: RuntimeCommand,
      success: Acknowledgement,
      error: ofCommands
    }).annotateMerge(describe("Submits a command. The author is the one of the token."))
  )
  .add(
    HttpApiEndpoint.get("events", "/events", {
      headers: Schema.Struct({
        /** The cursor of the last event that the client has. */
        "last-event-id": Schema.optionalKey(Schema.String)
      }),
      /** The number of the first event, for a client without a cursor. Default: 1. */
      query: Schema.Struct({ from: Schema.optionalKey(Schema.Natural) }),
      success: HttpApiSchema.StreamSse({ data: RuntimeEventEnvelope }),
      error: ofCommands
    }).annotateMerge(
      describe("Streams the events. The `id` of each is a cursor, which `Last-Event-ID` continues from.")
    )
  )
  .add(
    HttpApiEndpoint.get("snapshot", "/snapshot", {
      success: RuntimeSnapshot,
      error: ofCommands
    }).annotateMerge(describe("Reads the state of the runtime. Follow it with the events after its `seq`."))
  )
  .annotateMerge(describe("Commands and events of the runtime"))

const ofRun = { params: { runId: RunId }, error: ofRuns }

const runs = HttpApiGroup.make("runs")
  .add(
    HttpApiEndpoint.get("list", "/runs", {
      query: Api.RunsQuery,
      success: Schema.Array(Api.RunSummary),
      error: ofRuns
    }).annotateMerge(describe("Lists runs, the newest first."))
  )
  .add(
    HttpApiEndpoint.get("get", "/runs/:runId", { ...ofRun, success: Api.RunSummary }).annotateMerge(
      describe("Reads a run without its journal.")
    )
  )
  .add(
    HttpApiEndpoint.get("messages", "/runs/:runId/messages", {
      ...ofRun,
      query: Api.MessagesQuery,
      success: Schema.Array(Message)
    }).annotateMerge(describe("Reads messages of the session of a run, the last ones first."))
  )
  .add(
    HttpApiEndpoint.post("cancel", "/runs/:runId/cancel", {
      ...ofRun,
      payload: Api.CancelPayload,
      success: Schema.Struct({ runId: RunId })
    }).annotateMerge(describe("Requests that a run is cancelled, whichever process drives it."))
  )
  .add(
    HttpApiEndpoint.post("fork", "/runs/:runId/fork", {
      ...ofRun,
      payload: Api.ForkPayload,
      success: Schema.Struct({ runId: RunId })
    }).annotateMerge(describe("Starts a run of its own session from an earlier revision of a run."))
  )
  .add(
    HttpApiEndpoint.post("send", "/runs/:runId/messages", {
      ...ofRun,
      payload: Api.SendPayload,
      success: Api.MessageReceipt
    }).annotateMerge(describe("Sends a message to a run, which its model reads with its next turn."))
  )
  .annotateMerge(describe("Runs of the store"))

const sessions = HttpApiGroup.make("sessions")
  .add(
    HttpApiEndpoint.get("list", "/sessions", {
      query: Api.SessionsQuery,
      success: Schema.Array(Api.StoredSession),
      error: ofRuns
    }).annotateMerge(describe("Lists sessions by their last runs, the newest first."))
  )
  .add(
    HttpApiEndpoint.get("messages", "/sessions/:sessionId/messages", {
      params: { sessionId: SessionId },
      query: Api.MessagesQuery,
      success: Schema.Array(Message),
      error: ofRuns
    }).annotateMerge(describe("Reads messages of a session across its runs."))
  )
  .annotateMerge(describe("Sessions of the store"))

const inbox = HttpApiGroup.make("inbox")
  .add(
    HttpApiEndpoint.get("list", "/inbox", {
      query: Api.InboxQuery,
      success: Schema.Array(Api.InboxItem),
      error: ofDecisions
    }).annotateMerge(describe("Lists the open requests of all runs, the oldest first."))
  )
  .add(
    HttpApiEndpoint.post("decide", "/inbox/:requestId", {
      params: { requestId: RequestId },
      payload: Api.DecisionPayload,
      success: Decision,
      error: ofDecisions
    }).annotateMerge(
      describe(
        "Records a decision. 409: another one was first, and the body names its author. 410: the request expired. 422: the decision or its arguments do not fit."
      )
    )
  )
  .add(
    HttpApiEndpoint.post("decideAll", "/inbox", {
      payload: Api.DecisionsPayload,
      success: Schema.Array(Decision),
      error: ofDecisions
    }).annotateMerge(describe("Records several decisions, all or none."))
  )
  .annotateMerge(describe("Requests that wait for decisions"))

const bearer = {
  components: { securitySchemes: { token: { type: "http", scheme: "bearer" } } },
  security: [{ token: [] }]
} as const

/**
 * The interface: groups `control`, `runs`, `sessions` and `inbox` below `/v1`.
 *
 * @category models
 * @since 0.2.0
 */
export const FermataApi = HttpApi.make("fermata")
  .add(control, runs, sessions, inbox)
  .prefix("/v1")
  // Ignoring an unknown field would do something else than was asked.
  .annotate(HttpApi.PayloadParseOptions, { onExcessProperty: "error", errors: "all" })
  .annotate(HttpApi.QueryParseOptions, { onExcessProperty: "error", errors: "all" })
  .annotateMerge(
    OpenApi.annotations({
      title: "Fermata",
      version: "1",
      description: "Drives agents whose runs can be held and released, and watches them.",
      transform: (spec) => ({
        ...spec,
        components: { ...spec.components, ...bearer.components },
        security: bearer.security
      })
    })
  )

/** The OpenAPI 3.1 document of the interface, as plain JSON. */
export const openApi = (): object => OpenApi.fromApi(FermataApi)
