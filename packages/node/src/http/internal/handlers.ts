/**
 * The handlers of the interface: each answers for one caller, from the caller's view.
 */
import type { RuntimeCommand } from "@fermata/sdk/control/RuntimeCommand"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as HttpApiBuilder from "effect/http-api/HttpApiBuilder"
import type * as HttpServerRequest from "effect/http/HttpServerRequest"
import type * as HttpServerResponse from "effect/http/HttpServerResponse"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import * as SchemaIssue from "effect/SchemaIssue"
import * as Api from "../ApiModel.ts"
import { FermataApi } from "../FermataApi.ts"
import { RequestRefused } from "../RequestRefused.ts"
import type { KnownCaller } from "./authenticate.ts"
import type { Deciding, Fault } from "./Backend.ts"
import { eventStream } from "./eventStream.ts"
import { problemResponse } from "./problems.ts"
import { TenantView, type Tenants } from "./TenantView.ts"

/** The caller of a request. The server provides it; a handler without one fails. */
export class CurrentCaller extends Context.Service<CurrentCaller, KnownCaller>()(
  "@fermata/node/http/CurrentCaller"
) {}

/** What handlers share. */
export interface HandlerOptions {
  readonly tenants: Tenants
  /** Whether a caller may stop the runtime. */
  readonly allowShutdown: boolean
  /** Logs an error that the caller only learns as a status. */
  readonly report: (error: unknown) => void
}

/** The layer of all handlers. */
export const handlers = ({ allowShutdown, report, tenants }: HandlerOptions) => {
  /** Answers with what the view of the caller gives, or with the problem. */
  const answer = <A, R>(
    f: (view: TenantView, caller: KnownCaller) => Effect.Effect<A, Fault, R>
  ): Effect.Effect<A | HttpServerResponse.HttpServerResponse, never, R | CurrentCaller> =>
    Effect.flatMap(CurrentCaller, (caller) =>
      Effect.catch(
        Effect.suspend(() => f(new TenantView(tenants, caller), caller)),
        (error) => {
          const response = problemResponse(error)
          if (response.status === 500 || error._tag === "RunStoreError") report(error)
          return Effect.succeed(response)
        }
      )
    )

  const control = HttpApiBuilder.group(FermataApi, "control", (group) =>
    group
      .handleRaw("submit", ({ request }) =>
        answer(({ plane }, { principal }) =>
          Effect.gen(function* () {
            // The plane checks the command itself, with the sentences of the in-process interface.
            const command = (yield* jsonOf(request)) as RuntimeCommand
            if (!allowShutdown && isShutdown(command)) return yield* shutdownRefused()
            return yield* (yield* plane).submit(command, principal === undefined ? {} : { by: principal })
          })
        )
      )
      .handle("events", ({ headers, query }) =>
        answer(({ plane }) =>
          Effect.flatMap(plane, (own) => eventStream(own, headers["last-event-id"], query.from))
        )
      )
      .handle("snapshot", () => answer(({ plane }) => Effect.flatMap(plane, ({ snapshot }) => snapshot)))
  )

  const runs = HttpApiBuilder.group(FermataApi, "runs", (group) =>
    group
      .handle("list", ({ query }) => answer((view) => view.runs(query)))
      .handle("get", ({ params }) => answer((view) => view.run(params.runId)))
      .handle("messages", ({ params, query }) => answer((view) => view.messagesOfRun(params.runId, query)))
      .handleRaw("cancel", ({ params: { runId }, request }) =>
        answer((view) =>
          Effect.flatMap(bodyOf(request, Api.CancelPayload), ({ reason }) =>
            Effect.as(view.cancel(runId, reason), { runId })
          )
        )
      )
      .handleRaw("fork", ({ params, request }) =>
        answer((view) =>
          Effect.flatMap(bodyOf(request, Api.ForkPayload), (fork) =>
            Effect.map(view.fork(params.runId, fork), (runId) => ({ runId: runId as typeof params.runId }))
          )
        )
      )
      .handleRaw("send", ({ params, request }) =>
        answer((view) =>
          Effect.flatMap(bodyOf(request, Api.SendPayload), (message) => view.send(params.runId, message))
        )
      )
  )

  const sessions = HttpApiBuilder.group(FermataApi, "sessions", (group) =>
    group
      .handle("list", ({ query }) => answer((view) => view.sessions(query)))
      .handle("messages", ({ params, query }) => answer((view) => view.messages(params.sessionId, query)))
  )

  const inbox = HttpApiBuilder.group(FermataApi, "inbox", (group) =>
    group
      .handle("list", ({ query }) => answer((view) => view.inbox(query)))
      .handleRaw("decide", ({ params: { requestId }, request }) =>
        answer((view) =>
          Effect.flatMap(bodyOf(request, Api.DecisionPayload), (given) =>
            view.decide({ ...given, requestId } as Deciding)
          )
        )
      )
      .handleRaw("decideAll", ({ request }) =>
        answer((view) =>
          Effect.flatMap(bodyOf(request, Api.DecisionsPayload), ({ decisions }) =>
            view.decideAll(decisions as ReadonlyArray<Deciding>)
          )
        )
      )
  )

  return Layer.mergeAll(control, runs, sessions, inbox)
}

const isShutdown = (command: unknown): boolean =>
  typeof command === "object" && command !== null && "_tag" in command && command._tag === "Shutdown"

const shutdownRefused = () =>
  new RequestRefused({
    status: 403,
    reason: "ShutdownRefused",
    problem: "This server does not let its clients stop the runtime, since others use it, too."
  })

/** The JSON of a body. */
const jsonOf = (request: HttpServerRequest.HttpServerRequest): Effect.Effect<unknown, RequestRefused> =>
  Effect.flatMap(
    Effect.orElseSucceed(request.text, () => ""),
    (text) =>
      Effect.try({
        try: () => JSON.parse(text) as unknown,
        catch: () =>
          new RequestRefused({ status: 400, reason: "BodyInvalid", problem: "The body is no JSON document." })
      })
  )

const format = SchemaIssue.makeFormatterStandardSchemaV1()

/** The body of a request. An unknown key is refused, since ignoring it would do something else than was asked. */
const bodyOf = <S extends Schema.Codec<unknown, unknown>>(
  request: HttpServerRequest.HttpServerRequest,
  schema: S
): Effect.Effect<S["Type"], RequestRefused> =>
  Effect.flatMap(jsonOf(request), (json) =>
    Effect.mapError(
      Schema.decodeUnknownEffect(schema, { errors: "all", onExcessProperty: "error" })(json),
      ({ issue }) => {
        const issues = format(issue).issues.map(
          ({ message, path = [] }) => `"${path.map(String).join(".")}": ${message}`
        )
        const problem = `The body does not fit: ${issues.slice(0, 10).join("; ")}.`
        return new RequestRefused({ status: 422, reason: "BodyInvalid", problem })
      }
    )
  )
