/**
 * Several models behind one client: a request names a profile, and may fall back to others.
 *
 * The router is asked anew for every turn, so that a run goes on with another model when its agent, or whoever drives it, names
 * another profile. It falls back only while nothing of an answer is out, and only where another model can help: when a provider is
 * overloaded, away or out of quota, not when the request itself is refused.
 *
 * @since 0.1.0
 */
import * as Arr from "effect/Array"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Stream from "effect/Stream"
import { ModelClient } from "./ModelClient.ts"
import { InvalidRequest, ModelError } from "./ModelError.ts"
import type { ModelPart, ModelResponse } from "./ModelPart.ts"
import type { ModelRequest } from "./ModelRequest.ts"

type Client = ModelClient["Service"]

/** The models of a router. */
export interface RouterOptions {
  /** Clients by the names of their profiles. */
  readonly clients: Readonly<Record<string, Client>>
  /** The profile of requests that name none. Default: the first of `clients`. */
  readonly default?: string
  /** Which profiles to try, in this order, when the named one cannot answer. */
  readonly fallbacks?: Readonly<Record<string, ReadonlyArray<string>>>
  /** Told when one profile could not answer and the next is tried. */
  readonly onFallback?: (fallback: {
    readonly from: string
    readonly to: string
    readonly error: ModelError
  }) => void
}

/** A router. */
export interface ModelRouter extends Client {
  /** The profile of requests that name none. */
  readonly current: () => string
  /**
   * Uses another profile for requests that name none, from the next turn on. Returns whether there is such a profile; if not,
   * nothing changes.
   */
  readonly use: (profile: string) => boolean
  /** The names of the profiles. */
  readonly profiles: ReadonlyArray<string>
}

/**
 * Makes a router.
 *
 * **Errors**
 *
 * A request for a profile that is not there fails with `InvalidRequest`, which names those that are.
 *
 * @category constructors
 * @since 0.1.0
 */
export const make = (options: RouterOptions): ModelRouter => {
  const clients = new Map(Object.entries(options.clients))
  const fallbacks = new Map(Object.entries(options.fallbacks ?? {}))
  const profiles = [...clients.keys()]
  let current = options.default ?? profiles[0] ?? ""

  /** The clients to ask, in order, with their names. */
  const chain = (name: string): ReadonlyArray<readonly [string, Client]> =>
    [name, ...(fallbacks.get(name) ?? [])].flatMap((name) => {
      const client = clients.get(name)
      return client === undefined ? [] : [[name, client] as const]
    })

  const unknown = (name: string) =>
    new ModelError({
      reason: new InvalidRequest({
        description: `There is no model profile "${name}". The profiles are: ${profiles.join(", ")}.`
      })
    })

  /** The next client to ask after this error, if another one can help. */
  const after = (error: ModelError, names: ReadonlyArray<readonly [string, Client]>, index: number) => {
    const next = names[index + 1]
    if (next === undefined || !canHelp(error)) return false
    options.onFallback?.({ from: names[index]?.[0] ?? "", to: next[0], error })
    return true
  }

  const stream = (request: ModelRequest): Stream.Stream<ModelPart, ModelError> =>
    Stream.suspend(() => {
      const name = request.profile ?? current
      const names = chain(name)
      const ask = (index: number): Stream.Stream<ModelPart, ModelError> => {
        const entry = names[index]
        if (entry === undefined || !clients.has(name)) return Stream.fail(unknown(name))
        let seen = false
        return entry[1].stream({ ...request, profile: entry[0] }).pipe(
          Stream.mapArray((parts) => {
            seen = true
            return Arr.map(parts, (part) => named(part, entry[0]))
          }),
          Stream.catch((error) => (!seen && after(error, names, index) ? ask(index + 1) : Stream.fail(error)))
        )
      }
      return ask(0)
    })

  const complete = (request: ModelRequest): Effect.Effect<ModelResponse, ModelError> =>
    Effect.suspend(() => {
      const name = request.profile ?? current
      const names = chain(name)
      const ask = (index: number): Effect.Effect<ModelResponse, ModelError> => {
        const entry = names[index]
        if (entry === undefined || !clients.has(name)) return Effect.fail(unknown(name))
        return entry[1].complete({ ...request, profile: entry[0] }).pipe(
          Effect.map((response) => ({ ...response, profile: response.profile ?? entry[0] })),
          Effect.catch((error) => (after(error, names, index) ? ask(index + 1) : Effect.fail(error)))
        )
      }
      return ask(0)
    })

  return {
    stream,
    complete,
    profiles,
    current: () => current,
    use: (profile) => {
      if (!clients.has(profile)) return false
      current = profile
      return true
    }
  }
}

/**
 * A router as the program's model.
 *
 * @category layers
 * @since 0.1.0
 */
export const layer = (options: RouterOptions): Layer.Layer<ModelClient> =>
  Layer.sync(ModelClient, () => ModelClient.of(make(options)))

/** The answer says who gave it. */
const named = (part: ModelPart, profile: string): ModelPart =>
  part._tag === "finish" && part.profile === undefined ? { ...part, profile } : part

/** Whether another model may answer where this one could not. What is wrong with the request is wrong everywhere. */
const canHelp = (error: ModelError): boolean => {
  switch (error.reason._tag) {
    case "RateLimited":
    case "ProviderFault":
    case "ConnectionLost":
    case "TimedOut":
    case "InvalidResponse":
    case "QuotaExhausted":
    case "NotAuthorized":
      return true
    default:
      return false
  }
}
