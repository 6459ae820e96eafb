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
import { Auth, OptionsInvalid } from "@fermata/sdk"
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
import * as Result from "effect/Result"
import * as Stream from "effect/Stream"
import * as FileTokenStore from "./FileTokenStore.ts"

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
  lazily(options, "OPENAI_API_KEY", ({ OpenAiResponses }) => OpenAiResponses.make(options))

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
  lazily(options, "OPENAI_API_KEY", ({ OpenAiChat }) => OpenAiChat.make(options))

/**
 * Makes a client for a model of Anthropic, with the `/v1/messages` protocol. The key is the environment variable `ANTHROPIC_API_KEY` unless
 * `apiKey` or `auth` is given; `auth` wins. Without a key, calls of the model fail with the reason `NotAuthorized`.
 *
 * @category models
 * @since 0.1.0
 */
export const anthropic = (options: AnthropicMessages.Options): Client =>
  lazily(options, "ANTHROPIC_API_KEY", ({ AnthropicMessages }) => AnthropicMessages.make(options))

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
  lazily(profile, keyNames[profile?.protocol], ({ AnthropicMessages, OpenAiChat, OpenAiResponses }) => {
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

/** Options of {@link codexLogin}. */
export interface CodexLoginOptions {
  /** The provider's name for the model. */
  readonly model: string
  /** The file with the tokens of the login (see `FileTokenStore`), or another store. */
  readonly tokens: string | LoginTokens.TokenStore
  /** The id of your client at the issuer. Fermata has none of its own. */
  readonly clientId: string
  /** The name of your program in the header `originator`. */
  readonly originator: string
  /** Name of the profile. Default: `model`. */
  readonly name?: string
  /** A sentence for the user that describes how to log in. Default: `Log in again.` */
  readonly guidance?: string
  /** Default: `https://chatgpt.com/backend-api/codex`. */
  readonly baseUrl?: string
  /** Default: `https://auth.openai.com/oauth/token`. */
  readonly tokenUrl?: string
}

/**
 * Returns the options of {@link openAi} for the backend of Codex, which is used with the login of a ChatGPT account instead of a key.
 *
 * **Details**
 *
 * The backend stores nothing, only streams, accepts no limit on the output tokens, and requires instructions: a request of an agent without
 * any has one sentence. Change the returned options as needed, for example `{ ...codexLogin(options), contextTokens: 272_000 }`.
 *
 * **Errors**
 *
 * Throws `OptionsInvalid` for an unknown option. Model calls fail with `LoginRequired` if there is no login, or it cannot be renewed.
 *
 * **Example** (An agent with a login)
 *
 * ```ts run
 * import { codexLogin, openAi } from "@fermata/node"
 *
 * const model = openAi(
 *   codexLogin({
 *     model: "gpt-5.5",
 *     tokens: "tokens.json",
 *     clientId: "your-client-id",
 *     originator: "your_program",
 *     guidance: "Run `your-program login`."
 *   })
 * )
 * ```
 *
 * @category models
 * @since 0.1.0
 */
export const codexLogin = (options: CodexLoginOptions): OpenAiResponses.Options => {
  const keys = OptionsInvalid.checkKeys("codexLogin", options ?? null, codexKeys)
  if (Result.isFailure(keys)) throw keys.failure
  const { clientId, guidance, model, originator, tokens } = options
  const { baseUrl = "https://chatgpt.com/backend-api/codex", name = model } = options
  const { tokenUrl = "https://auth.openai.com/oauth/token" } = options
  return {
    model,
    name,
    baseUrl,
    headers: { originator, "openai-beta": "responses=experimental" },
    auth: login({
      profile: name,
      store: typeof tokens === "string" ? FileTokenStore.make(tokens) : tokens,
      tokenUrl,
      clientId,
      account: {
        header: "chatgpt-account-id",
        claim: ["https://api.openai.com/auth", "chatgpt_account_id"]
      },
      ...(guidance === undefined ? {} : { guidance })
    }),
    compatibility: {
      store: false,
      streamOnly: true,
      maxOutputTokens: false,
      defaultInstructions: "You are a helpful assistant."
    }
  }
}

const codexKeys: ReadonlyArray<keyof CodexLoginOptions> = [
  "model",
  "tokens",
  "clientId",
  "originator",
  "name",
  "guidance",
  "baseUrl",
  "tokenUrl"
]

const keyNames = {
  chat: "OPENAI_API_KEY",
  responses: "OPENAI_API_KEY",
  messages: "ANTHROPIC_API_KEY"
} as const

/** The options that are read before the code of the client is loaded. They may be anything: they are checked later. */
type EarlyOptions = Partial<
  Pick<ModelProfile.ModelProfile, "contextTokens" | "auth" | "baseUrl" | "headers"> &
    Pick<OpenAiChat.Options, "apiKey">
>

const lazily = (
  { apiKey, auth, baseUrl, contextTokens, headers }: EarlyOptions,
  keyName: string,
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
    contextTokens: () => contextTokens,
    // A key that is no key fails the calls.
    secrets: Effect.suspend(() =>
      Auth.secretsOf({ auth: auth ?? Auth.bearer(apiKey ?? fromEnvironment(keyName)), baseUrl, headers })
    )
  }
}

/** The key in the environment. */
const fromEnvironment = (name: string): Auth.Secret =>
  Effect.flatMap(
    Effect.promise(() => import("effect/Config")),
    (Config) => Config.Redacted(name)
  )

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
