/**
 * The people of the scenarios. They do not know whether what they asked for has happened when a process dies, so they look,
 * and ask again: everything here may be done any number of times.
 */
import type { Decision, Grant, Id, Interruption } from "@fermata/sdk/domain"
import type { StoredStartInput } from "@fermata/sdk/durable"
import type { RunResult } from "@fermata/sdk/run"
import * as Effect from "effect/Effect"
import type { App } from "./app.ts"
import { canary } from "./canary.ts"

/** What a user decides about a request; `undefined` to leave it. */
export type Choose = (request: Interruption.Interruption, app: App) => Decision.DecisionInput | undefined

const hasTag = (error: unknown, ...tags: ReadonlyArray<string>): boolean =>
  typeof error === "object" && error !== null && "_tag" in error && tags.includes(String(error._tag))

/** Whether the store has a run. */
export const isThere = ({ store }: App, runId: Id.RunId): Effect.Effect<boolean, unknown> =>
  Effect.catch(Effect.as(store.head(runId), true), (error) =>
    hasTag(error, "RunNotFound") ? Effect.succeed(false) : Effect.fail(error)
  )

/** Does not mind an error: what was asked for has been done. */
export const unless =
  (...tags: ReadonlyArray<string>) =>
  <A, E>(effect: Effect.Effect<A, E>): Effect.Effect<A | void, E> =>
    Effect.catch(effect, (error) => (hasTag(error, ...tags) ? Effect.void : Effect.fail(error)))

/** Starts a run, or finds that it was started. */
export const begin = (app: App, input: StoredStartInput & { readonly runId: Id.RunId }) =>
  Effect.catch(app.start(input), (error) =>
    hasTag(error, "RunExists") ? app.go({ runId: input.runId }) : Effect.fail(error)
  )

/** Approves, answers, tops up; says of a call in doubt what really became of it. */
export const honest: Choose = (request, { world }) => {
  const { requestId } = request
  const by = "ann"
  switch (request._tag) {
    case "approval":
      return { _tag: "approve", requestId, by, digest: request.digest }
    case "question":
      return { _tag: "answer", requestId, by, answer: `yes, ${canary}` }
    case "inDoubt":
      return world.effects.some(({ idempotencyKey }) => idempotencyKey === request.idempotencyKey)
        ? { _tag: "supply", requestId, by, result: `${request.tool} ${canary}` }
        : { _tag: "retry", requestId, by }
    case "limit":
      return { _tag: "topUp", requestId, by, limit: request.spent + 5 }
    case "login":
      return { _tag: "retry", requestId, by }
  }
}

/** Approves with a grant. */
export const grantingFor =
  (grant: Grant.GrantRequest): Choose =>
  (request, app) =>
    request._tag === "approval"
      ? {
          _tag: "approve",
          requestId: request.requestId,
          by: "ann",
          digest: request.digest,
          grant: { ...grant, scope: scopeFor(request, grant.scope) }
        }
      : honest(request, app)

/** For how long a request can be granted: a sub-agent's for its run only. */
export const scopeFor = (
  { agentPath }: Interruption.Interruption,
  scope: Grant.GrantRequest["scope"]
): Grant.GrantRequest["scope"] => (agentPath.length > 1 ? "run" : scope)

/** Approves with a grant for the session. */
export const granting = grantingFor({ scope: "session", arguments: {} })

/** Takes a decision, unless it was taken, perhaps by the same person, before the crash. */
export const decide = (app: App, decision: Decision.DecisionInput) =>
  unless("AlreadyDecided", "RequestSuperseded")(app.decide(decision))

/** Decides and continues until the run is over, or waits for something that `choose` leaves. */
export const settle = (
  app: App,
  running: RunResult.RunResult | Effect.Effect<RunResult.RunResult, unknown>,
  choose: Choose = honest,
  options: { readonly oneByOne?: boolean } = {}
): Effect.Effect<RunResult.RunResult, unknown> =>
  Effect.gen(function* () {
    let current = Effect.isEffect(running) ? yield* running : running
    for (let round = 0; round < 60; round++) {
      if (current.status !== "interrupted") return current
      const decisions = current.interruptions.flatMap((request) => choose(request, app) ?? [])
      if (decisions.length === 0) return current
      for (const decision of options.oneByOne === true ? decisions.slice(0, 1) : decisions) {
        yield* decide(app, decision)
      }
      current = yield* app.go({ runId: current.runId })
    }
    return yield* Effect.die(new Error("The run asks for ever."))
  })

/**
 * Takes up whatever `recover` finds, and decides whatever it asks, until nothing is left. A run that it does not find is lost: those that
 * have not ended are returned.
 */
export const finish = (app: App): Effect.Effect<ReadonlyArray<string>, unknown> =>
  Effect.gen(function* () {
    for (let round = 0; round < 60; round++) {
      yield* app.recover
      const pending = yield* app.store.pending({ limit: 1000 })
      for (const { request } of pending) {
        const decision = honest(request, app)
        if (decision !== undefined) yield* decide(app, decision)
      }
      if (pending.length === 0) break
    }
    const runs = yield* app.store.list({ limit: 1000 })
    return runs.flatMap(({ runId, status }) =>
      status === "running" || status === "held" ? [`${runId} is ${status} and asks nothing`] : []
    )
  })
