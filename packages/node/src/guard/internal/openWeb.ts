/**
 * The connections of guarded requests, which close with a scope.
 */
import { lookup } from "node:dns/promises"
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import type { Dispatcher } from "undici"
import { make } from "../WebGuard.ts"
import { makeConnector, type Resolve } from "./connector.ts"
import type { Sending } from "./sendGuarded.ts"
import { guardOptions, limitsOf, type Options } from "./webOptions.ts"

/** The options have been checked. */
export const openWeb = (options: Options): Effect.Effect<Sending, never, Scope.Scope> => {
  const guard = make(guardOptions(options))
  const limits = limitsOf(options)
  const open = async () => {
    // Loads the HTTP client only in programs that use it.
    const { Agent, ProxyAgent } = await import("undici")
    const shared = {
      allowH2: false,
      maxHeaderSize: limits.maxHeaderSize,
      connectTimeout: limits.idleTimeoutMs
    }
    if (options.proxy !== undefined)
      return { agent: new ProxyAgent({ ...shared, uri: options.proxy }) as Dispatcher, close: () => {} }
    const { close, connect } = makeConnector(guard, options.resolve ?? resolveBySystem, limits.idleTimeoutMs)
    return { agent: new Agent({ ...shared, connect }) as Dispatcher, close }
  }
  const opened = Effect.acquireRelease(Effect.promise(open), ({ agent, close }) =>
    Effect.promise(() => {
      close()
      return agent.destroy()
    })
  )
  return Effect.map(opened, ({ agent }) => ({ agent, guard, limits }))
}

const resolveBySystem: Resolve = async (host) => {
  try {
    return (await lookup(host, { all: true, order: "verbatim" })).map(({ address }) => address)
  } catch (error) {
    const isAbsent =
      error instanceof Error && "code" in error && (error.code === "ENOTFOUND" || error.code === "ENODATA")
    if (isAbsent) return []
    throw error
  }
}
