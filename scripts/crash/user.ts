/**
 * The people of the scenarios. After a crash they do not know whether their request took effect, so they look and ask again: every
 * function here may be repeated any number of times.
 */
import type { Blob, Decision, Grant, Id, Interruption, Message } from "@fermata/sdk/domain"
import type { StoredStartInput } from "@fermata/sdk/durable"
import type { RunResult } from "@fermata/sdk/run"
import * as Effect from "effect/Effect"
import * as Stream from "effect/Stream"
import type { App } from "./app.ts"
import { canary } from "./canary.ts"

/** A user's decision on a request; `undefined` leaves it open. */
export type Choose = (request: Interruption.Interruption, app: App) => Decision.DecisionInput | undefined

const hasTag = (error: unknown, ...tags: ReadonlyArray<string>): boolean =>
  typeof error === "object" && error !== null && "_tag" in error && tags.includes(String(error._tag))

/** Whether the store has a run. */
export const isThere = ({ store }: App, runId: Id.RunId): Effect.Effect<boolean, unknown> =>
  Effect.catch(Effect.as(store.head(runId), true), (error) =>
    hasTag(error, "RunNotFound") ? Effect.succeed(false) : Effect.fail(error)
  )

/** Ignores the errors that show that an operation had taken effect before. */
export const unless =
  (...tags: ReadonlyArray<string>) =>
  <A, E>(effect: Effect.Effect<A, E>): Effect.Effect<A | void, E> =>
    Effect.catch(effect, (error) => (hasTag(error, ...tags) ? Effect.void : Effect.fail(error)))

/** Starts a run, or finds that it was started. */
export const begin = (app: App, input: StoredStartInput & { readonly runId: Id.RunId }) =>
  Effect.catch(app.start(input), (error) =>
    hasTag(error, "RunExists") ? app.go({ runId: input.runId }) : Effect.fail(error)
  )

/** Approves, answers, tops up and ends holds; for a call in doubt, reports its real outcome. */
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
    case "timer":
    case "external":
      return { _tag: "supply", requestId, by, result: `${request.tool} ${canary}` }
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

/** The scope in which a request can be granted: a sub-agent's for its run only. */
export const scopeFor = (
  { agentPath }: Interruption.Interruption,
  scope: Grant.GrantRequest["scope"]
): Grant.GrantRequest["scope"] => (agentPath.length > 1 ? "run" : scope)

/** Approves with a grant for the session. */
export const granting = grantingFor({ scope: "session", arguments: {} })

/** Makes a decision, unless it was made before the crash, perhaps by the same person. */
export const decide = (app: App, decision: Decision.DecisionInput) =>
  unless("AlreadyDecided", "RequestSuperseded")(app.decide(decision))

/** Decides and resumes until the run ends, or has only requests that `choose` leaves open. */
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
    return yield* Effect.die(new Error("The run opens requests for ever."))
  })

/**
 * Drives the runs that `recover` finds and decides their requests, until none is left. A run that it does not find is lost: returns the
 * runs that have not ended.
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

/** More than is stored in one transaction, so that a process can be hit in between. */
const photo = new Uint8Array(1_100_000).fill(7)

/** Stores the photo. */
export const attached = (app: App) => Effect.map(app.store.blobs!.put(Stream.make(photo)), fileOf)

const fileOf = (ref: Blob.BlobRef): Message.FilePart => ({
  _tag: "file",
  mediaType: "image/png",
  source: { _tag: "stored", ...ref }
})
