/**
 * Makes model clients for {@link createFermata}, and logins for these clients.
 *
 * Their code is loaded at the first call of the model, and their options are checked then: an unknown or invalid option fails the runs that
 * call the model, with `RunDefect`.
 *
 * Effect programs use the modules `OpenAiResponses`, `OpenAiChat` and `AnthropicMessages` of `@fermata/sdk/model` instead.
 *
 * @since 0.1.0
 */
import type {
  AnthropicMessages,
  LoginTokens,
  ModelClient,
  ModelProfile,
  OpenAiChat,
  OpenAiResponses
} from "@fermata/sdk/model"
import type * as Models from "@fermata/sdk/model"
import * as Effect from "effect/Effect"
import type * as HttpClient from "effect/http/HttpClient"
import * as Stream from "effect/Stream"

type Client = ModelClient.ModelClient["Service"]
type Made = Effect.Effect<Client, never, HttpClient.HttpClient>

/**
 * Makes a client for a model of OpenAI, with the `/responses` protocol. The key is the environment variable `OPENAI_API_KEY` unless
 * `apiKey` or `auth` is given; `auth` wins. Without a key, calls of the model fail with the reason `NotAuthorized`.
 *
 * **Example** (An agent with a real model)
 *
 * ```ts run
 * import { agent, createFermata, openAi } from "@fermata/node"
 *
 * const model = openAi({ model: "gpt-5.5" })
 * await using fermata = await createFermata({ agents: [agent("ops")], model })
 * ```
 *
 * @category models
 * @since 0.1.0
 */
export const openAi = (options: OpenAiResponses.Options): Client =>
  lazily(options, ({ OpenAiResponses }) => OpenAiResponses.make(options))

/**
 * Makes a client for a model of any server with the `/chat/completions` protocol, at its `baseUrl` (default: OpenAI's).
 *
 * **Gotchas**
 *
 * Every server is sent the key in `OPENAI_API_KEY`, unless `apiKey` or `auth` is given; `auth` wins. For a server without keys, give
 * `auth: Auth.none`: without a key, calls of the model fail with the reason `NotAuthorized`.
 *
 * @category models
 * @since 0.1.0
 */
export const openAiCompatible = (options: OpenAiChat.Options): Client =>
  lazily(options, ({ OpenAiChat }) => OpenAiChat.make(options))

/**
 * Makes a client for a model of Anthropic, with the `/v1/messages` protocol. The key is the environment variable `ANTHROPIC_API_KEY` unless
 * `apiKey` or `auth` is given; `auth` wins. Without a key, calls of the model fail with the reason `NotAuthorized`.
 *
 * @category models
 * @since 0.1.0
 */
export const anthropic = (options: AnthropicMessages.Options): Client =>
  lazily(options, ({ AnthropicMessages }) => AnthropicMessages.make(options))

/**
 * Makes a client for the model of a profile, with the protocol that the profile names.
 *
 * **Gotchas**
 *
 * A profile without `auth` sends the key of the protocol's own provider to its `baseUrl`: `OPENAI_API_KEY` for `chat` and `responses`,
 * `ANTHROPIC_API_KEY` for `messages`. For a server without keys, set `auth` to `Auth.none`.
 *
 * @category models
 * @since 0.1.0
 */
export const modelOf = (profile: ModelProfile.ModelProfile): Client =>
  lazily(profile, ({ AnthropicMessages, OpenAiChat, OpenAiResponses }) => {
    switch (profile.protocol) {
      case "chat":
        return OpenAiChat.make(profile)
      case "responses":
        return OpenAiResponses.make(profile)
      case "messages":
        return AnthropicMessages.make(profile)
    }
  })

/**
 * Makes a login for the `auth` of a model, to use instead of a key. The access token of the login is renewed before it expires, and when
 * the provider refuses it: once for all processes that use one token store, such as a file of `FileTokenStore`. `LoginTokens.make` of
 * `@fermata/sdk/model` lists the errors of model calls.
 *
 * @category models
 * @since 0.1.0
 */
export const login = (options: LoginTokens.Options): ModelProfile.Auth => {
  const load = async (): Promise<ModelProfile.Auth> => {
    const [{ LoginTokens }, http] = await Promise.all([
      import("@fermata/sdk/model"),
      import("effect/http/FetchHttpClient")
    ])
    return Effect.runPromise(Effect.provide(LoginTokens.make(options), http.layer))
  }
  const auth = once(load)
  return {
    canRefresh: true,
    ...(options?.guidance === undefined ? {} : { guidance: options.guidance }),
    headers: (given) => Effect.flatMap(auth, (auth) => auth.headers(given))
  }
}

const lazily = (
  { contextTokens }: Pick<ModelProfile.ModelProfile, "contextTokens">,
  make: (models: typeof Models) => Made
): Client => {
  const load = async (): Promise<Client> => {
    const [models, http] = await Promise.all([
      import("@fermata/sdk/model"),
      import("effect/http/FetchHttpClient")
    ])
    return Effect.runPromise(Effect.provide(make(models), http.layer))
  }
  const client = once(load)
  return {
    stream: (request) => Stream.unwrap(Effect.map(client, (client) => client.stream(request))),
    complete: (request) => Effect.flatMap(client, (client) => client.complete(request)),
    contextTokens: () => contextTokens
  }
}

/** Loads at the first use, and again after a failure. */
const once = <A>(load: () => Promise<A>): Effect.Effect<A> => {
  let loaded: Promise<A> | undefined
  return Effect.promise(() => {
    const loading = (loaded ??= load())
    return loading.catch((error: unknown) => {
      if (loaded === loading) loaded = undefined
      throw error
    })
  })
}
