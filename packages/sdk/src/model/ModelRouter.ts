/**
 * A model client that selects another client by the request's profile, and can fall back to others.
 *
 * Each request is routed by itself, so that a run continues with another model when its agent or its caller selects another profile. The
 * router falls back only before it has emitted a part, and only if another model can help: when the provider limits the rate, has a fault,
 * cannot be reached, is too slow, returns an invalid response, is out of quota or refuses the key. It does not when the provider refuses
 * the request, the request exceeds the context, the model cannot stream, or a login is required.
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

/** Options of {@link make}. */
export interface RouterOptions {
  /** The clients, by the names of their profiles. */
  readonly clients: Readonly<Record<string, Client>>
  /** The profile for requests without one. Default: the first of `clients`. A name without a client fails such requests. */
  readonly default?: string
  /**
   * For each profile, the profiles to try in this order if it fails. Only the list of the requested profile counts. Names without a client
   * are skipped.
   */
  readonly fallbacks?: Readonly<Record<string, ReadonlyArray<string>>>
  /** Called when a profile failed, before the next one is tried. */
  readonly onFallback?: (fallback: {
    readonly from: string
    readonly to: string
    readonly error: ModelError
  }) => void
}

/** A model client that routes requests by profile. */
export interface ModelRouter extends Client {
  /** Returns the profile for requests without one. */
  readonly current: () => string
  /**
   * Sets the profile for requests without one, from the next request on. Returns `false`, and changes nothing, if there is no such
   * profile.
   */
  readonly use: (profile: string) => boolean
  /** The names of the profiles. */
  readonly profiles: ReadonlyArray<string>
}

/**
 * Makes a router over several clients: it sends each request to the client of the request's profile, and then to its `fallbacks` while a
 * fallback can help. The description of the module says when it can.
 *
 * **Errors**
 *
 * Calls fail with the `ModelError` of the last client tried. The reason is `InvalidRequest` if the router has no such profile; its
 * description lists the profiles.
 *
 * @category constructors
 * @since 0.1.0
 */
export const make = (options: RouterOptions): ModelRouter => {
  const clients = new Map(Object.entries(options.clients))
  const fallbacks = new Map(Object.entries(options.fallbacks ?? {}))
  const profiles = [...clients.keys()]
  let current = options.default ?? profiles[0] ?? ""

  /** The client of a profile, then its fallbacks, with their names. */
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

  /** Returns the attempt with the profile's client, followed by those with its fallbacks. */
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
    maxOutputTokens: (profile) => {
      const name = profile ?? current
      return clients.get(name)?.maxOutputTokens?.(name)
    },
    secrets: Effect.map(
      Effect.forEach(
        clients.values(),
        // A client that fails to name its own must not hide those of the others.
        ({ secrets }) => Effect.catchCause(secrets ?? Effect.succeed([]), () => Effect.succeed([])),
        { concurrency: "unbounded" }
      ),
      (all) => all.flat()
    ),
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
 * Provides a router as the `ModelClient`. See {@link make}.
 *
 * @category layers
 * @since 0.1.0
 */
export const layer = (options: RouterOptions): Layer.Layer<ModelClient> =>
  Layer.sync(ModelClient, () => ModelClient.of(make(options)))

/** Adds the profile's name to a response that has none. */
const named = <A extends Ending>(answer: A, { profile }: ModelRequest): A =>
  answer.profile === undefined && profile !== undefined ? { ...answer, profile } : answer

/** Returns `true` if another model may succeed. An error in the request fails with every model. */
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
