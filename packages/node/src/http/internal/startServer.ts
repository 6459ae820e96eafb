/**
 * Puts a server together: the handlers of the interface over a backend, and the listener.
 */
import * as Effect from "effect/Effect"
import * as HttpApiBuilder from "effect/http-api/HttpApiBuilder"
import * as HttpRouter from "effect/http/HttpRouter"
import * as HttpServer from "effect/http/HttpServer"
import * as Layer from "effect/Layer"
import { FermataApi } from "../FermataApi.ts"
import type { KnownCaller } from "./authenticate.ts"
import type { Backend } from "./Backend.ts"
import { handlers } from "./handlers.ts"
import { type Handler, HttpListener } from "./HttpListener.ts"
import type { Settings } from "./settings.ts"
import { Tenants } from "./TenantView.ts"

/** A server that listens. */
export interface Started {
  readonly url: string
  readonly port: number
  readonly close: () => Promise<void>
}

/** Starts a server. `report` logs what clients do not learn. */
export const startServer = async (
  backend: Backend,
  settings: Settings,
  report: (error: unknown) => void
): Promise<Started> => {
  const tenants = new Tenants(backend, settings.tenantKey)
  const { allowShutdown } = settings
  const app = HttpApiBuilder.layer(FermataApi, { openapiPath: "/v1/openapi.json" }).pipe(
    Layer.provide(handlers({ tenants, allowShutdown, report })),
    Layer.provide(HttpServer.layerServices)
  )
  const web = HttpRouter.toWebHandler(app, { disableLogger: true })
  const listener = new HttpListener(settings, web.handler as Handler, report)
  const isStopped = async ({ tenant }: KnownCaller) => {
    const plane = await Effect.runPromise(tenants.plane(tenant))
    return (await Effect.runPromise(plane.snapshot)).status !== "running"
  }
  const release = async () => {
    await web.dispose()
    await Effect.runPromise(backend.close)
  }
  let closing: Promise<void> | undefined
  try {
    const { port, url } = await listener.listen()
    return { url, port, close: () => (closing ??= listener.close(isStopped).finally(release)) }
  } catch (error) {
    await release()
    throw error
  }
}
