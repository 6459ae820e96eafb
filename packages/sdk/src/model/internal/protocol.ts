/**
 * A provider's wire format: encodes a request as a body, and decodes a response to parts.
 *
 * A protocol is pure. The transport sends, applies time limits and retries, in the same way for all protocols.
 */
import type * as Result from "effect/Result"
import type * as Schema from "effect/Schema"
import type { ModelError } from "../ModelError.ts"
import type { ModelPart, ModelResponse } from "../ModelPart.ts"
import type { ModelProfile } from "../ModelProfile.ts"
import type { ModelRequest } from "../ModelRequest.ts"
import type { ReportedUsage } from "./cost.ts"
import type { SettingFields } from "./warnings.ts"

/** One provider protocol. */
export interface Protocol {
  /** Appended to the profile's base URL. */
  readonly path: string
  /** Headers of every request. Those of the profile override them. */
  readonly headers: Readonly<Record<string, string>>
  /** Returns the body of a request. `room` is the number of output tokens that fit into the context, if known. */
  readonly encode: (
    request: ModelRequest,
    profile: ModelProfile,
    streaming: boolean,
    room?: number
  ) => Schema.JsonObject
  /** The fields of the body for each setting. If the body has none of them, the setting was omitted. */
  readonly settingFields: SettingFields
  /** Makes a decoder for one streamed response. */
  readonly decoder: (profile: ModelProfile) => AnswerDecoder
  /** Decodes the parsed body of a response that was not streamed. */
  readonly decode: (body: unknown, profile: ModelProfile) => Result.Result<ModelResponse, ModelError>
}

/** Decodes one streamed response. Mutable. */
export interface AnswerDecoder {
  /**
   * Reads one event of the stream. Its parts go to `emit`, in order. A returned error ends the stream. Unknown events, items and fields
   * are skipped.
   */
  readonly event: (name: string, data: string, emit: (part: ModelPart) => void) => ModelError | undefined
  /**
   * Ends the stream. Emits the remaining parts, the `finish` last. Returns an error if the response or one of its tool calls is
   * incomplete.
   */
  readonly end: (emit: (part: ModelPart) => void) => ModelError | undefined
  /**
   * Returns `true` after the event that ends a response. The response then ends at once, even if the server keeps the connection open.
   * Without this function, a response ends with its body.
   */
  readonly isDone?: () => boolean
  /** Returns the usage that the provider has reported so far, if any. */
  readonly usage: () => ReportedUsage | undefined
}

/** Identifies the provider to which payloads may be sent back: the same protocol, server and model. */
export const providerOf = ({ baseUrl, model, protocol }: ModelProfile): string =>
  `${protocol}@${URL.parse(baseUrl)?.host ?? baseUrl}/${model}`
