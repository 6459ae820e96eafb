/**
 * The HTTP server as a service, for Effect programs: it serves the runs of the `RunStore` of the context.
 *
 * @since 0.2.0
 */
import { Display, type RunStore, type Runtime } from "@fermata/sdk"
import type * as ControlPlane from "@fermata/sdk/control/ControlPlane"
import type { OptionsInvalid } from "@fermata/sdk/domain"
import { TaggedError } from "@fermata/sdk/domain/TaggedError"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Redacted from "effect/Redacted"
import * as Schema from "effect/Schema"
import type * as Scope from "effect/Scope"
import type { HttpOptions } from "./HttpOptions.ts"
import { effectBackend } from "./internal/effectBackend.ts"
import { settingsOf } from "./internal/settings.ts"
import { startServer } from "./internal/startServer.ts"

/** The options of a server. */
export interface ServerOptions extends HttpOptions {
  /** The runtimes of the agents; the first one is that of new sessions that name none. */
  readonly agents: readonly [Runtime.Runtime, ...ReadonlyArray<Runtime.Runtime>]
  /** A control plane that other front ends of the program use, too. Default: one of the server's own. Callers with a tenant have others. */
  readonly plane?: ControlPlane.Shape
}

/** The server cannot listen, for example because its port is taken. Choose another port. */
export class ListenFailed extends TaggedError<ListenFailed>()("ListenFailed", {
  cause: Schema.Defect()
}) {
  override get message() {
    return "The HTTP server cannot listen: choose another port, or close the program that has it."
  }
}

/** A server that listens. */
export interface Shape {
  /** Where the server answers. */
  readonly url: string
  /** The bearer token of the server's only caller. Absent if callers have tokens of their own. */
  readonly token: Redacted.Redacted | undefined
}

/**
 * The server as a service.
 *
 * @category services
 * @since 0.2.0
 */
export class FermataServer extends Context.Service<FermataServer, Shape>()(
  "@fermata/node/http/FermataServer"
) {}

/**
 * Starts a server, as `serveHttp` does. When the scope closes, the event streams end within a second, and the tasks of the server's control
 * planes are suspended.
 *
 * **Errors**
 *
 * - `OptionsInvalid` — an option is unknown, wrong or unsafe.
 * - `ListenFailed` — the port is taken.
 *
 * @category constructors
 * @since 0.2.0
 */
export const make = Effect.fnUntraced(function* (
  options: ServerOptions
): Effect.fn.Return<Shape, OptionsInvalid.OptionsInvalid | ListenFailed, RunStore.RunStore | Scope.Scope> {
  const { agents, plane, ...rest } = options
  const settings = yield* Effect.try({
    try: () => settingsOf("FermataServer.make", rest),
    catch: (error) => error as OptionsInvalid.OptionsInvalid
  })
  const log = Effect.runForkWith(yield* Effect.context<never>())
  const report = (error: unknown) =>
    void log(Effect.logError(`The HTTP server could not answer a request: ${Display.messageOf(error)}`))
  const backend = yield* effectBackend(plane === undefined ? { agents } : { agents, plane })
  const { url } = yield* Effect.acquireRelease(
    Effect.tryPromise({
      try: () => startServer(backend, settings, report),
      catch: (cause) => new ListenFailed({ cause })
    }),
    ({ close }) => Effect.promise(close)
  )
  const { token } = settings
  return { url, token: token === undefined ? undefined : Redacted.make(token) }
})

/**
 * The layer of a server whose options an effect makes.
 *
 * @category layers
 * @since 0.2.0
 */
export const layer = <E, R>(
  options: Effect.Effect<ServerOptions, E, R>
): Layer.Layer<
  FermataServer,
  E | OptionsInvalid.OptionsInvalid | ListenFailed,
  Exclude<R, Scope.Scope> | RunStore.RunStore
> => Layer.effect(FermataServer, Effect.flatMap(options, make))
