/**
 * The backend of the services of an Effect program: its run store, and the runtimes of its agents.
 */
import {
  BoundAgent,
  Cancellation,
  cancelRun,
  decideAllStored,
  decideStored,
  forkRun,
  readMessages,
  RunError,
  RunStore,
  type Runtime,
  sendMessage
} from "@fermata/sdk"
import * as ControlPlane from "@fermata/sdk/control/ControlPlane"
import type { DecisionInput } from "@fermata/sdk/domain/Decision"
import { lineOf, type RunId } from "@fermata/sdk/domain/Id"
import * as RunContext from "@fermata/sdk/domain/RunContext"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Scope from "effect/Scope"
import type { ForkPayload } from "../ApiModel.ts"
import type { Backend, Deciding, Fault } from "./Backend.ts"

/** The runtimes of the agents, and a plane that other front ends of the program use as well. */
export interface EffectBackendOptions {
  readonly agents: readonly [Runtime.Runtime, ...ReadonlyArray<Runtime.Runtime>]
  readonly plane?: ControlPlane.Shape
}

/** Makes the backend of the runtimes. Closing it suspends the planes' tasks and the forks. */
export const effectBackend = Effect.fnUntraced(function* ({
  agents,
  plane
}: EffectBackendOptions): Effect.fn.Return<Backend, never, RunStore.RunStore> {
  const services = yield* Effect.context<RunStore.RunStore>()
  const store = yield* RunStore.RunStore
  const scope = yield* Scope.make()
  const suspension = { soon: Cancellation.make(), now: Cancellation.make() }
  const provided = <A, E extends Fault>(
    effect: Effect.Effect<A, E, RunStore.RunStore>
  ): Effect.Effect<A, Fault> => Effect.provideContext(effect, services)

  const fork = (runId: string, given: ForkPayload) =>
    Effect.gen(function* () {
      const { agent: name, ...input } = given
      const wanted = name ?? (yield* store.head(runId as RunId)).agent
      const runtime = agents.find(({ bound }) => BoundAgent.answersTo(bound.agent, wanted))
      if (runtime === undefined) {
        const known = agents.map(({ agent }) => agent.name)
        return yield* new RunError.AgentNotFound({ agent: wanted, known })
      }
      // Resolves at the fork's first update, which follows its commit.
      return yield* Effect.callback<string, Fault>((resume) => {
        const onUpdate = (update: { readonly runId: string }) => resume(Effect.succeed(update.runId))
        const forking = forkRun(runtime, { runId, ...input }, { suspension, onUpdate })
        const answering = Effect.matchCause(forking, {
          onSuccess: (result) => resume(Effect.succeed(result.runId)),
          onFailure: (cause) => resume(Effect.failCause(cause))
        })
        Effect.runForkWith(services)(Effect.forkIn(answering, scope))
      })
    })

  return {
    makePlane: (context) =>
      plane !== undefined && context === undefined
        ? Effect.succeed(plane)
        : provided(
            Scope.provide(ControlPlane.make(context === undefined ? { agents } : { agents, context }), scope)
          ),
    contextOf: (runId) =>
      Effect.map(store.events(lineOf(runId).root, { limit: 1 }), ([first]) =>
        first?._tag === "run.started" ? RunContext.contextOf(first) : RunContext.empty
      ),
    run: (runId) => store.head(runId as RunId),
    runs: (query) => store.list(query),
    sessions: (query) => store.sessions(query),
    messages: (sessionId, page) => provided(readMessages(sessionId, page)),
    inbox: (query) => store.pending(query),
    decide: (given) => provided(decideStored(agents, inputOf(given))),
    decideAll: (given) => provided(decideAllStored(agents, given.map(inputOf))),
    cancel: (runId, reason) => provided(cancelRun(runId, reason)),
    fork: (runId, given) => provided(fork(runId, given)),
    send: (runId, { messageId, prompt }) =>
      provided(sendMessage(runId, prompt, messageId === undefined ? {} : { messageId })),
    close: Effect.suspend(() => {
      suspension.soon.cancel("The server is being closed.")
      suspension.now.cancel("The server was closed.")
      return Scope.close(scope, Exit.void)
    })
  }
})

const inputOf = ({ by = "unnamed", decision, digest, idempotencyKey, requestId }: Deciding): DecisionInput =>
  ({
    ...decision,
    requestId,
    by,
    ...(digest === undefined ? {} : { digest }),
    ...(idempotencyKey === undefined ? {} : { idempotencyKey })
  }) as DecisionInput
