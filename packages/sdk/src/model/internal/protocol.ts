/**
 * How a provider's protocol is spoken, without a network: a request becomes a body, and what comes back becomes parts.
 *
 * A protocol is pure. Sending, waiting, retrying and giving up are the transport's business and the same for all of them.
 */
import type * as Result from "effect/Result"
import type * as Schema from "effect/Schema"
import type { ModelUsage } from "../../domain/Usage.ts"
import type { ModelError } from "../ModelError.ts"
import type { ModelPart, ModelResponse } from "../ModelPart.ts"
import type { ModelProfile } from "../ModelProfile.ts"
import type { ModelRequest } from "../ModelRequest.ts"
import type { SettingFields } from "./warnings.ts"

/** One provider protocol. */
export interface Protocol {
  /** Appended to the profile's base URL. */
  readonly path: string
  /** What every request says besides what the profile adds. */
  readonly headers: Readonly<Record<string, string>>
  /** The body of a request. `room` is how many tokens of output the model has room for; left out where that is not known. */
  readonly encode: (
    request: ModelRequest,
    profile: ModelProfile,
    streaming: boolean,
    room?: number
  ) => Schema.JsonObject
  /** Where the body says what settings ask for: what is not there was left out. */
  readonly settingFields: SettingFields
  /** Reads one streamed answer. */
  readonly decoder: (profile: ModelProfile) => AnswerDecoder
  /** Reads a whole answer: the body of a response that was not streamed, already parsed. */
  readonly decode: (body: unknown, profile: ModelProfile) => Result.Result<ModelResponse, ModelError>
}

/** Reads one streamed answer. Changed in place: one lives for one response. */
export interface AnswerDecoder {
  /**
   * One event of the stream. Parts go to `emit` in order; an error ends the stream, whatever follows. Events, items and fields
   * that are not known are skipped.
   */
  readonly event: (name: string, data: string, emit: (part: ModelPart) => void) => ModelError | undefined
  /**
   * There are no more events. Emits what is left, the `finish` last; an error when the stream did not come to its proper end, or
   * when a call in it is not whole.
   */
  readonly end: (emit: (part: ModelPart) => void) => ModelError | undefined
  /**
   * Whether the event that ends an answer has come. The answer is then ended at once, however long the server keeps the
   * connection open. Left out: an answer ends when the body does.
   */
  readonly isDone?: () => boolean
  /** What the provider has said so far that the answer used; `undefined` while it has said nothing. */
  readonly usage: () => ModelUsage | undefined
}

/** Who may be sent a provider's own items back: the same protocol, server and model. */
export const providerOf = ({ baseUrl, model, protocol }: ModelProfile): string =>
  `${protocol}@${URL.parse(baseUrl)?.host ?? baseUrl}/${model}`
