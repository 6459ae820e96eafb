/**
 * Connects to a Fermata over HTTP, for programs that do not use Effect.
 *
 * @since 0.2.0
 */
import type { Fermata } from "@fermata/sdk"
import type { Acknowledgement } from "@fermata/sdk/control/Acknowledgement"
import type { RuntimeCommand } from "@fermata/sdk/control/RuntimeCommand"
import type { RuntimeEventEnvelope } from "@fermata/sdk/control/RuntimeEventEnvelope"
import type { RuntimeSnapshot } from "@fermata/sdk/control/RuntimeSnapshot"
import * as Effect from "effect/Effect"
import * as FetchHttpClient from "effect/http/FetchHttpClient"
import * as Stream from "effect/Stream"
import * as FermataClient from "./FermataClient.ts"

/** A method of the client that returns a promise. */
type Promised<Method> = Method extends (...given: infer Given) => Effect.Effect<infer Answer, infer _>
  ? (...given: Given) => Promise<Answer>
  : never

/**
 * A Fermata behind an HTTP server. Its `submit`, `events` and `snapshot` are those of a control plane, so that a front end works with both.
 * Promises reject with the errors of the server, such as `AlreadyDecided`, with `RequestRefused`, and with `HttpClientError` if there is no
 * connection.
 *
 * @category models
 * @since 0.2.0
 */
export interface ConnectedFermata extends AsyncDisposable {
  /** The id of the run of the runtime to which the client connected first. */
  readonly epoch: string
  readonly submit: (command: RuntimeCommand) => Promise<Acknowledgement>
  /** Iterates over the events until the runtime has stopped. Continues after a lost connection. */
  readonly events: (options?: Fermata.PlaneEventsOptions) => AsyncIterable<RuntimeEventEnvelope>
  readonly snapshot: () => Promise<RuntimeSnapshot>
  readonly runs: Promised<FermataClient.Shape["runs"]>
  readonly run: Promised<FermataClient.Shape["run"]>
  readonly messages: Promised<FermataClient.Shape["messages"]>
  readonly cancel: Promised<FermataClient.Shape["cancel"]>
  readonly fork: Promised<FermataClient.Shape["fork"]>
  readonly send: Promised<FermataClient.Shape["send"]>
  readonly sessions: Promised<FermataClient.Shape["sessions"]>
  readonly sessionMessages: Promised<FermataClient.Shape["sessionMessages"]>
  readonly inbox: Promised<FermataClient.Shape["inbox"]>
  readonly decide: Promised<FermataClient.Shape["decide"]>
  readonly decideAll: Promised<FermataClient.Shape["decideAll"]>
  /** Ends the iterations over events. */
  readonly close: () => Promise<void>
}

/**
 * Connects to a server, by its address and its token. Rejects with `RequestRefused` if the server refuses the token, and with
 * `HttpClientError` if there is no server.
 *
 * **Example** (Watching a Fermata of another process)
 *
 * ```ts no-run it needs a server
 * import { connectFermata } from "@fermata/node/http"
 *
 * await using client = await connectFermata({ url: "http://127.0.0.1:4100", token: process.env.FERMATA_TOKEN })
 * for await (const { event } of client.events()) console.log(event._tag)
 * ```
 *
 * @category constructors
 * @since 0.2.0
 */
export const connectFermata = async (options: FermataClient.ClientOptions): Promise<ConnectedFermata> => {
  const { token, url } = options
  const client = await Effect.runPromise(
    Effect.provide(FermataClient.make({ url: url.replace(/\/$/, ""), token }), FetchHttpClient.layer)
  )
  const { epoch } = await Effect.runPromise(client.snapshot)
  const closing = new AbortController()
  const promised =
    <Given extends ReadonlyArray<unknown>, A, E>(f: (...given: Given) => Effect.Effect<A, E>) =>
    (...given: Given): Promise<A> =>
      Effect.runPromise(f(...given))
  const close = async () => closing.abort()
  return {
    epoch,
    submit: promised(client.submit),
    events: ({ from, signal } = {}) => ({
      [Symbol.asyncIterator]: () => {
        const signals = signal === undefined ? [closing.signal] : [closing.signal, signal]
        const ended = Effect.callback<void>((resume) => {
          const end = AbortSignal.any(signals)
          if (end.aborted) return resume(Effect.void)
          end.addEventListener("abort", () => resume(Effect.void), { once: true })
        })
        return Stream.toAsyncIterable(Stream.interruptWhen(client.events(from), ended))[
          Symbol.asyncIterator
        ]()
      }
    }),
    snapshot: () => Effect.runPromise(client.snapshot),
    runs: promised(client.runs),
    run: promised(client.run),
    messages: promised(client.messages),
    cancel: promised(client.cancel),
    fork: promised(client.fork),
    send: promised(client.send),
    sessions: promised(client.sessions),
    sessionMessages: promised(client.sessionMessages),
    inbox: promised(client.inbox),
    decide: promised(client.decide),
    decideAll: promised(client.decideAll),
    close,
    [Symbol.asyncDispose]: close
  }
}
