/**
 * The backend of a Fermata of the Promise API.
 */
import type { Fermata } from "@fermata/sdk"
import { lineOf } from "@fermata/sdk/domain/Id"
import * as RunContext from "@fermata/sdk/domain/RunContext"
import * as Effect from "effect/Effect"
import * as Stream from "effect/Stream"
import type { ForkPayload } from "../ApiModel.ts"
import type { Backend, Deciding, Fault, Plane } from "./Backend.ts"

type Planes = Pick<Fermata.RunControlPlane, "epoch" | "submit" | "events" | "snapshot">

const call = <A>(f: () => Promise<A>): Effect.Effect<A, Fault> =>
  Effect.tryPromise({ try: f, catch: (error) => error as Fault })

/** Makes the backend of a Fermata. `shared` is a plane that other front ends of the program use as well. */
export const promiseBackend = (fermata: Fermata.Fermata, shared?: Planes): Backend => {
  const planes: Array<Fermata.RunControlPlane> = []
  return {
    makePlane: (context) =>
      shared !== undefined && context === undefined
        ? Effect.succeed(planeOf(shared))
        : Effect.map(
            call(() => fermata.controlPlane(context === undefined ? {} : { context })),
            (plane) => {
              planes.push(plane)
              return planeOf(plane)
            }
          ),
    contextOf: (runId) =>
      Effect.map(
        call(() => fermata.state(lineOf(runId).root)),
        RunContext.contextOf
      ),
    run: (runId) =>
      Effect.flatMap(
        call(() => fermata.runs({ runIds: [runId] as never })),
        ([head]) => (head === undefined ? missing(fermata, runId) : Effect.succeed(head))
      ),
    runs: (query) => call(() => fermata.runs(query)),
    sessions: (query) => call(() => fermata.sessions(query)),
    messages: (sessionId, page) => call(() => fermata.messages(sessionId, page)),
    inbox: (query) => call(() => fermata.pending(query)),
    decide: (given) => {
      const { request, decision, ...options } = decidingOf(given)
      return call(() => fermata.decide(request, decision, options))
    },
    decideAll: (given) => call(() => fermata.decideAll(given.map(decidingOf))),
    cancel: (runId, reason) => call(() => fermata.cancel(runId, reason)),
    fork: (runId, fork) => forking(fermata, runId, fork),
    send: (runId, { messageId, prompt }) =>
      call(() => fermata.send(runId, prompt, messageId === undefined ? {} : { messageId })),
    close: Effect.promise(async () => {
      await Promise.allSettled(planes.map((plane) => plane[Symbol.asyncDispose]()))
    })
  }
}

const planeOf = (plane: Planes): Plane => ({
  epoch: plane.epoch,
  submit: (command, options) => call(() => plane.submit(command, options)) as ReturnType<Plane["submit"]>,
  events: (from) =>
    Stream.fromAsyncIterable(
      plane.events(from === undefined ? {} : { from }),
      (error) => error
    ) as ReturnType<Plane["events"]>,
  snapshot: Effect.promise(() => plane.snapshot())
})

/** The error for a run that is not listed: that of reading it. */
const missing = (fermata: Fermata.Fermata, runId: string) =>
  Effect.flatMap(
    call(() => fermata.state(runId)),
    ({ runId }) => call(async () => (await fermata.runs({ runIds: [lineOf(runId).root] }))[0]!)
  )

const decidingOf = ({ by, decision, digest, idempotencyKey, requestId }: Deciding) => ({
  request: requestId,
  decision: (digest === undefined ? decision : { ...decision, digest }) as typeof decision,
  ...(by === undefined ? {} : { by }),
  ...(idempotencyKey === undefined ? {} : { idempotencyKey })
})

/** Starts a fork, and resolves when it is stored: its first update follows the commit. */
const forking = (fermata: Fermata.Fermata, runId: string, fork: ForkPayload) =>
  Effect.callback<string, Fault>((resume) => {
    const { prompt, ...options } = fork
    const onUpdate = ({ runId }: { readonly runId: string }) => resume(Effect.succeed(runId))
    fermata.fork(runId, prompt, { ...options, onUpdate }).then(
      (result) => resume(Effect.succeed(result.runId)),
      (error: Fault) => resume(Effect.fail(error))
    )
  })
