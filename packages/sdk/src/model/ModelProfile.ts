/**
 * A named model: its address, protocol, authentication, prices and limits.
 *
 * A profile is a plain value. Agents refer to it by name. A router selects the client of that name for each turn, so that a run can
 * continue with another model.
 *
 * @since 0.1.0
 */
import type * as Duration from "effect/Duration"
import type * as Effect from "effect/Effect"
import type * as Redacted from "effect/Redacted"
import type { ModelError } from "./ModelError.ts"
import type { ModelSettings } from "./ModelRequest.ts"

/**
 * The wire format, with the path that a request appends to `baseUrl`: `chat` is `/chat/completions`, `responses` is `/responses`,
 * `messages` is `/messages`.
 */
export type ProtocolName = "chat" | "responses" | "messages"

/** Supplies the headers that authenticate a request. */
export interface Auth {
  /** Called before each request. `forced` is `true` after a 401; `given` then contains the headers that were refused. */
  readonly headers: (options: {
    readonly forced: boolean
    readonly given?: Readonly<Record<string, Redacted.Redacted<string>>>
  }) => Effect.Effect<Readonly<Record<string, Redacted.Redacted<string>>>, ModelError>
  /**
   * If `true`, a request that fails with 401 is sent once more, with new headers; a second 401 fails with `LoginRequired`. If `false`, a
   * 401 fails with `NotAuthorized`.
   */
  readonly canRefresh: boolean
  /**
   * The secrets, as far as they are known before a request. They are removed from all texts of runs; so are the values of `headers`, from the
   * first request on.
   */
  readonly secrets?: Effect.Effect<ReadonlyArray<Redacted.Redacted<string>>>
  /** A sentence for the user on how to log in, for the error after a second 401. Default: `Log in again.` */
  readonly guidance?: string
}

/** Prices in US dollars per million tokens. */
export interface Rates {
  readonly input: number
  /** Input that the provider read from its cache. Default: `input`. */
  readonly cachedInput?: number
  /** Input that the provider wrote to its cache. Default: `input`. */
  readonly cacheWrite?: number
  readonly output: number
}

/**
 * The prices of a model. A cost that the provider reports counts instead. Without both, or if the provider reports no input tokens, the
 * cost of a call is unknown.
 */
export interface Prices extends Rates {
  /**
   * Rates for all tokens of a call whose input has more than `above` tokens, sorted by `above`, lowest first. Of several that match, the
   * last one applies. Tokens of the other `models` do not count.
   */
  readonly tiers?: ReadonlyArray<Rates & { readonly above: number }>
  /**
   * Rates of other models that the provider runs within a call, such as an advisor or a fallback, by the provider's names. If a call used
   * a model without such rates, its whole cost is unknown.
   */
  readonly models?: Readonly<Record<string, Rates>>
}

/** Differences between servers that speak the same protocol. The defaults suit the protocol's own provider, OpenAI or Anthropic. */
export interface Compatibility {
  /** `chat`: the field that limits the output tokens. Default: `max_completion_tokens`. */
  readonly maxTokensField?: "max_completion_tokens" | "max_tokens"
  /** `chat`: the role of the instructions. Default: `system`. */
  readonly systemRole?: "system" | "developer" | "user"
  /** `chat`: if `true`, a streamed request asks for the usage (`stream_options`). Default: `true`. */
  readonly streamUsage?: boolean
  /** `chat`, `responses`: if `true`, tools and outputs whose schemas allow it are marked as strict. Default: `false`. */
  readonly strict?: boolean
  /** If `false`, the setting `parallelToolCalls` is not sent. Default: `true`. */
  readonly parallelToolCalls?: boolean
  /**
   * How the request asks for structured output. Default: `jsonSchema`. Otherwise the instructions contain the schema; with `jsonObject`,
   * `chat` and `responses` also request JSON. With `jsonSchema`, the instructions contain a schema that `messages` cannot express.
   */
  readonly structuredOutput?: "jsonSchema" | "jsonObject" | "none"
  /**
   * Which of the settings `temperature` and `topP` are sent: `both`, `either` (`topP` only without a `temperature`) or `none`. Default, by
   * the model's name: `either` for Claude 4.1 to 4.6, `none` for later ones and for OpenAI's reasoning models while they reason, else
   * `both`. While the model thinks, `messages` sends none in any case.
   */
  readonly sampling?: "both" | "either" | "none"
  /** If `false`, the setting `reasoningEffort` is not sent. Default: `true`. */
  readonly reasoningEffort?: boolean
  /** `chat`: the field in which reasoning is sent back, or `none`. Default: the field in which it arrived. */
  readonly reasoningReplay?: "none" | "reasoning_content" | "reasoning" | "reasoning_details"
  /**
   * `chat`: the exact length of a call's id, which then has only letters and digits: 9 for Mistral. Other ids are mapped to ids of this
   * form, always in the same way. Default: any length up to 40.
   */
  readonly callIdLength?: number
  /** `responses`: the instructions of a request without any, for servers that require some. Default: none are sent. */
  readonly defaultInstructions?: string
  /** `responses`: if `true`, the provider stores responses. Default: `false`; reasoning is then sent back encrypted. */
  readonly store?: boolean
  /**
   * `responses`: if `true`, items are sent back with their ids, also if the provider does not store them. Some servers require the ids,
   * others refuse them. Default: the value of `store`.
   */
  readonly itemIds?: boolean
  /** `responses`: if `false`, the setting `maxOutputTokens` is not sent. Default: `true`. */
  readonly maxOutputTokens?: boolean
  /**
   * `messages`: if `false`, requests carry no `cache_control`, with which the provider caches the instructions, the tools and the history, so
   * that the next turn pays less for them. Default: `true`.
   */
  readonly cacheControl?: boolean
  /** If `true`, the server only streams: complete responses are collected from a stream. Default: `false`. */
  readonly streamOnly?: boolean
}

/** How a client retries a request: only after a retryable error, and only before it has emitted the first part of the response. */
export interface RetryOptions {
  /**
   * Attempts after the first. Default: 4. In a run, the last of them, after a failed stream, is a complete call if that may help. Not
   * counted are a request that is repeated with a renewed login, and the complete call, with its own attempts, if the model cannot stream.
   */
  readonly times?: number
  /**
   * The upper bound of the first wait, doubled for each further one. Each wait is random below its bound, unless the provider asks for a
   * wait: then it is that long, plus up to 10 %. Default: 1 second.
   */
  readonly base?: Duration.Input
  /** The highest bound of a wait. If the provider asks for a longer wait, the call fails, and the error states it. Default: 60 seconds. */
  readonly cap?: Duration.Input
}

/**
 * Limits the requests and tokens in any 60 seconds, over all runs of the process and all profiles with the same `key`. An absent limit is
 * no limit. A request above a limit waits for its turn, in the order of arrival. The wait counts against the run's `modelTimeoutMs`, and a
 * suspension of the run ends it. A request counts from its turn on, even if a renewed login or a slow connection delays it after that.
 */
export interface RateLimit {
  readonly requestsPerMinute?: number
  /**
   * Input and output tokens. Until the response reports its usage, a request counts with an estimate of its input. A request above the
   * whole limit is sent alone.
   */
  readonly tokensPerMinute?: number
  /** The profiles with the same key share the limits. Default: the host of the address. */
  readonly key?: string
}

/**
 * Stops sending requests to a server that fails. Failed attempts are counted over all runs of the process and all profiles with the same
 * `key`. After `failures` of them in a row, calls fail at once with a retryable `ProviderFault`, which the client does not retry, so that a
 * router takes the next profile. After `cooldown`, one request is sent: if it fails in such a way, the cooldown begins anew, otherwise
 * calls are sent again. Only provider faults, lost connections and timeouts count as failures.
 */
export interface CircuitBreaker {
  /** Default: 5. */
  readonly failures?: number
  /** Default: 30 seconds. */
  readonly cooldown?: Duration.Input
  /** The profiles with the same key share the breaker. Default: the host of the address. */
  readonly key?: string
}

/**
 * Time limits of each attempt at a request. An attempt that exceeds one fails with `TimedOut`, and may be retried.
 *
 * **Gotchas**
 *
 * Node's own `fetch` has fixed limits of 5 minutes for the head and between two parts of the body. For longer ones, provide another
 * `HttpClient`.
 */
export interface Timeouts {
  /** For the head of a streamed response. Default: 60 seconds. */
  readonly response?: Duration.Input
  /**
   * For the first part of the body. Of a response that is not streamed also for the head, which the server sends when it has finished
   * the response; `response` counts if it is longer. Default: 5 minutes.
   */
  readonly firstByte?: Duration.Input
  /** Between two parts of the body, including blank ones. Default: 5 minutes. */
  readonly idle?: Duration.Input
}

/** A named model. */
export interface ModelProfile {
  /** The name by which agents refer to the profile. */
  readonly name: string
  readonly protocol: ProtocolName
  /** The address without the protocol's own path, such as `https://api.openai.com/v1`. A query of the address is kept. */
  readonly baseUrl: string
  /** The provider's name for the model. */
  readonly model: string
  /** Without it, requests carry no authentication. The clients' own `profile` functions set it from the provider's key. */
  readonly auth?: Auth
  /** Headers that are added to every request. They override the protocol's; those of `auth` override them. */
  readonly headers?: Readonly<Record<string, string>>
  /**
   * The size of the context in tokens, input and output together. Default: unknown. A requested `maxOutputTokens` above 1024 is lowered to
   * the space that the estimated input leaves, but not below 1024.
   */
  readonly contextTokens?: number
  /**
   * The most tokens that the model can write. A requested `maxOutputTokens` is lowered to it. `messages` requests it if no setting does;
   * without both, it requests 8192.
   */
  readonly maxOutputTokens?: number
  readonly prices?: Prices
  readonly compatibility?: Compatibility
  /** Default settings. A request's settings override them field by field, and so do the fields of its `extra`. */
  readonly settings?: ModelSettings
  readonly retry?: RetryOptions
  readonly timeouts?: Timeouts
  /** Default: no limit. */
  readonly rateLimit?: RateLimit
  /** Default: none. */
  readonly circuitBreaker?: CircuitBreaker
}
