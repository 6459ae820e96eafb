/**
 * A named model: where it is, how it is spoken to, who pays, and what it can hold.
 *
 * A profile is a plain value. Agents ask for it by name; the router finds the client behind it, so that a run can go on with
 * another model at its next turn.
 *
 * @since 0.1.0
 */
import type * as Duration from "effect/Duration"
import type * as Effect from "effect/Effect"
import type * as Redacted from "effect/Redacted"
import type { ModelError } from "./ModelError.ts"
import type { ModelSettings } from "./ModelRequest.ts"

/** `chat` is `/chat/completions`, `responses` is `/responses`, `messages` is `/v1/messages`. */
export type ProtocolName = "chat" | "responses" | "messages"

/** Headers that say who asks. */
export interface Auth {
  /** Asked before each request. `forced` after a 401: what was given last time, `given`, is not good any more. */
  readonly headers: (options: {
    readonly forced: boolean
    readonly given?: Readonly<Record<string, Redacted.Redacted<string>>>
  }) => Effect.Effect<Readonly<Record<string, Redacted.Redacted<string>>>, ModelError>
  /** Whether a 401 may be answered with other headers. */
  readonly canRefresh: boolean
}

/** US dollars for a million tokens. */
export interface Rates {
  readonly input: number
  /** Input that the provider had cached. Default: as `input`. */
  readonly cachedInput?: number
  /** Input that the provider is asked to cache. Default: as `input`. */
  readonly cacheWrite?: number
  readonly output: number
}

/** What a model's tokens cost. Without prices the cost of a call is unknown, unless the provider reports it. */
export interface Prices extends Rates {
  /** Other rates, for all tokens of a call whose input is longer than `above` tokens; the shortest first. */
  readonly tiers?: ReadonlyArray<Rates & { readonly above: number }>
}

/** What differs between servers that speak one protocol. Every field has a default that suits the protocol's own provider. */
export interface Compatibility {
  /** `chat`: how the bound on output is called. Default: `max_completion_tokens`. */
  readonly maxTokensField?: "max_completion_tokens" | "max_tokens"
  /** `chat`: who says the instructions. Default: `system`. */
  readonly systemRole?: "system" | "developer" | "user"
  /** `chat`: whether usage has to be asked for in a stream. Default: yes. */
  readonly streamUsage?: boolean
  /** Whether tools and outputs may be marked as strict, where their schemas allow it. Default: no. */
  readonly strict?: boolean
  /** Whether parallel calls can be switched. Default: yes. */
  readonly parallelToolCalls?: boolean
  /** How structured output is asked for. Default: `jsonSchema`. */
  readonly structuredOutput?: "jsonSchema" | "jsonObject" | "none"
  /** Whether reasoning effort can be set. Default: yes. */
  readonly reasoningEffort?: boolean
  /** `chat`: how reasoning goes back. Default: the way it came. */
  readonly reasoningReplay?: "none" | "reasoning_content" | "reasoning" | "reasoning_details"
  /**
   * `chat`: how many letters and digits the id of a call has to have, and nothing else: 9 for Mistral. Ids of other forms are mapped to
   * such ones, each to the same every time. Default: as they came.
   */
  readonly callIdLength?: number
  /** `responses`: whether the provider keeps what is said. Default: no; reasoning then goes back encrypted. */
  readonly store?: boolean
  /** `responses`: whether the bound on output may be sent. Default: yes. */
  readonly maxOutputTokens?: boolean
  /** Whether an answer can only be streamed. Default: no. */
  readonly streamOnly?: boolean
}

/** How often and how long a request is tried again, before anything of its answer is out. */
export interface RetryOptions {
  /** Attempts after the first. Default 4. */
  readonly times?: number
  /** The longest first wait; doubled each time, and taken at random below. Default 1 second. */
  readonly base?: Duration.Input
  /** The longest wait. A provider that asks for more ends the call, with that time in the error. Default 60 seconds. */
  readonly cap?: Duration.Input
}

/**
 * How long to wait for what.
 *
 * Node's own `fetch` gives up after 5 minutes without a head, and without a part of the body, whatever is set here; for longer
 * waits provide another `HttpClient`.
 */
export interface Timeouts {
  /** For the head of the response, where it is streamed. Default 60 seconds. */
  readonly response?: Duration.Input
  /** For the first part of the body; for a whole answer, which is written first, also for the head. Default 5 minutes. */
  readonly firstByte?: Duration.Input
  /** Between two parts of the body, whatever is in them. Default 5 minutes. */
  readonly idle?: Duration.Input
}

/** A named model. */
export interface ModelProfile {
  /** By which agents ask for it. */
  readonly name: string
  readonly protocol: ProtocolName
  /** Up to where the protocol's own path begins, such as `https://api.openai.com/v1`. */
  readonly baseUrl: string
  /** The provider's name for the model. */
  readonly model: string
  readonly auth?: Auth
  /** Added to every request. */
  readonly headers?: Readonly<Record<string, string>>
  /**
   * Tokens that fit into one call, input and output together. A bound on output that is asked for is lowered to what is left beside
   * the input, as far as that can be counted, but not below 1024.
   */
  readonly contextTokens?: number
  /** Tokens that the model can write. A bound on output that is asked for is lowered to it. */
  readonly maxOutputTokens?: number
  readonly prices?: Prices
  readonly compatibility?: Compatibility
  /** Used where the request does not say otherwise. */
  readonly settings?: ModelSettings
  readonly retry?: RetryOptions
  readonly timeouts?: Timeouts
}
