/**
 * Several models behind one client: a request names a profile, and may fall back to others.
 *
 * The router is asked anew for every turn, so that a run goes on with another model when its agent, or its caller, names
 * another profile. It falls back only while nothing of an answer is out, and only where another model can help: when a provider is
 * overloaded, away or out of quota, not when the request itself is refused.
 *
 * @since 0.1.0
 */
import * as Arr from "effect/Array"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Stream from "effect/Stream"
import { completeFirst, type Next, streamFirst } from "./internal/http/retrying.ts"
import { ModelClient } from "./ModelClient.ts"
import { InvalidRequest, ModelError } from "./ModelError.ts"
import type { Ending } from "./ModelPart.ts"
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
  /** Called when one profile could not answer and the next is tried. */
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

  /** Asks the clients of this request, one after the other, until one answers. */
  const first = <Answer>(
    request: ModelRequest,
    ask: (client: Client, asked: ModelRequest) => Answer,
    failed: (error: ModelError) => Answer
  ): Next<Answer> => {
    const name = request.profile ?? current
    const names = chain(name)
    const next = (index: number): Next<Answer> => {
      const entry = names[index]
      if (entry === undefined || !clients.has(name)) return { ask: failed(unknown(name)), after: Effect.fail }
      const [from, client] = entry
      const to = names[index + 1]?.[0]
      return {
        ask: ask(client, { ...request, profile: from }),
        after: (error) => {
          if (to === undefined || !canHelp(error)) return Effect.fail(error)
          options.onFallback?.({ from, to, error })
          return Effect.succeed(next(index + 1))
        }
      }
    }
    return next(0)
  }

  const stream = (request: ModelRequest) =>
    Stream.suspend(() =>
      streamFirst(
        first(
          request,
          (client, asked) =>
            Stream.mapArray(
              client.stream(asked),
              Arr.map((part) => (part._tag === "finish" ? named(part, asked) : part))
            ),
          Stream.fail
        )
      )
    )

  const complete = (request: ModelRequest) =>
    Effect.suspend(() =>
      completeFirst(
        first(
          request,
          (client, asked) => Effect.map(client.complete(asked), (response) => named(response, asked)),
          Effect.fail
        )
      )
    )

  return {
    stream,
    complete,
    contextTokens: (profile) => {
      const name = profile ?? current
      return clients.get(name)?.contextTokens?.(name)
    },
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
const named = <A extends Ending>(answer: A, { profile }: ModelRequest): A =>
  answer.profile === undefined && profile !== undefined ? { ...answer, profile } : answer

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
