/**
 * The parts of a streamed response, and the collector that joins them to one response.
 *
 * Parts are plain objects without a schema: a stream may emit thousands a second, and no part is stored. The collected response is.
 *
 * @since 0.1.0
 */
import type * as Schema from "effect/Schema"
import { sentence } from "../domain/Display.ts"
import { defined } from "../domain/internal/defined.ts"
import { kindOf } from "../domain/internal/untyped.ts"
import { type FilePart, type ReasoningPart, text, type TextPart } from "../domain/Message.ts"
import type { AnsweredPart, FinishReason } from "../domain/RunEvent.ts"
import type { ModelUsage } from "../domain/Usage.ts"

/** Provider data of a part of a response. It is sent back with the history, unchanged, and only to the same `provider`. */
export interface Replay {
  readonly provider?: string
  readonly payload?: Schema.Json
}

/** One part of a streamed response. A stream ends with exactly one `finish`. */
export type ModelPart =
  | { readonly _tag: "text-delta"; readonly delta: string }
  /**
   * Ends a text. Only needed if the text has a `payload`, if the next text is another one, or if the deltas differ from the final `text`.
   */
  | ({ readonly _tag: "text-end"; readonly text?: string } & Replay)
  | { readonly _tag: "reasoning-delta"; readonly delta: string }
  /** Ends a reasoning. `payload` and `text` have the same meaning as in `text-end`. */
  | ({ readonly _tag: "reasoning-end"; readonly text?: string } & Replay)
  /** A piece of the arguments of a call that the model is writing. For display only. */
  | {
      readonly _tag: "tool-call-delta"
      readonly index: number
      readonly name: string
      readonly delta: string
    }
  /** A complete call. */
  | ({
      readonly _tag: "tool-call"
      readonly providerCallId: string
      readonly name: string
      /** JSON text; "" means no arguments. */
      readonly arguments: string
    } & Replay)
  | { readonly _tag: "file"; readonly file: FilePart }
  | ({ readonly _tag: "finish" } & Ending)

/** How a response ended, and what it used. */
export interface Ending {
  readonly finishReason: FinishReason
  /** The usage of all requests that the response took. */
  readonly usage: ModelUsage
  /** The input tokens of the last request alone, or of the model's last pass within it, if `usage` covers several. */
  readonly lastInputTokens?: number
  /** The name of the model profile that responded. Absent if the client does not report it. */
  readonly profile?: string
  /**
   * Set if the provider paused while it ran its own tools. It continues when it receives its content back, with these fields in the
   * request. `AnthropicMessages` does that itself, so that its responses do not have this field.
   */
  readonly paused?: Schema.JsonObject
}

/** The last part of a stream, a `finish`. */
export type Finish = Extract<ModelPart, { readonly _tag: "finish" }>

/** A complete response. */
export interface ModelResponse extends Ending {
  readonly content: ReadonlyArray<AnsweredPart>
}

/** Joins the parts of one model call to a response. Mutable. */
export interface Collector {
  /** Adds a part. Throws a `TypeError` for an unknown part and for a delta that is not a string. */
  readonly add: (part: ModelPart) => void
  /** Returns the text of the parts so far, without reasoning and without provider data. */
  readonly said: () => ReadonlyArray<TextPart>
  /** Returns `true` once a part with content was added. */
  readonly hasContent: () => boolean
  /** Returns the response, or `undefined` before the `finish` was added. */
  readonly response: () => ModelResponse | undefined
}

/** Makes an empty collector. */
export const makeCollector = (): Collector => new PartCollector()

const known = [
  "text-delta",
  "text-end",
  "reasoning-delta",
  "reasoning-end",
  "tool-call-delta",
  "tool-call",
  "file",
  "finish"
] satisfies ReadonlyArray<ModelPart["_tag"]>

/** A client may be written without types. */
const unknownPart = (part: unknown): string => {
  if (typeof part !== "object" || part === null) return `${kindOf(part)} as a part`
  const tag = "_tag" in part ? part._tag : undefined
  return typeof tag === "string" ? sentence`the unknown part "${tag}"` : "a part without a _tag"
}

const deltaOf = ({ _tag, delta }: { readonly _tag: string; readonly delta: string }): string => {
  if (typeof delta === "string") return delta
  throw new TypeError(`it emitted a ${_tag} whose "delta" is ${kindOf(delta)}, and has to be a string`)
}

class PartCollector implements Collector {
  private content: Array<AnsweredPart> | undefined = undefined
  private text = ""
  private reasoning = ""
  private finish: Finish | undefined = undefined
  private seen = false

  add(part: ModelPart): void {
    switch (part?._tag) {
      case "text-delta":
        if (this.reasoning !== "") this.endReasoning()
        this.text += deltaOf(part)
        this.seen = true
        return
      case "text-end":
        this.endReasoning()
        this.endText(part)
        return
      case "reasoning-delta":
        this.endText()
        this.reasoning += deltaOf(part)
        this.seen = true
        return
      case "reasoning-end":
        this.endText()
        this.endReasoning(part)
        return
      case "tool-call-delta":
        this.seen = true
        return
      case "tool-call": {
        this.endText()
        this.endReasoning()
        this.seen = true
        const { providerCallId, name } = part
        this.push({
          _tag: "toolCall",
          providerCallId,
          name,
          arguments: part.arguments,
          ...replayOf(part)
        })
        return
      }
      case "file":
        this.endText()
        this.endReasoning()
        this.seen = true
        this.push(part.file)
        return
      case "finish":
        this.finish = part
        return
      default:
        throw new TypeError(
          `it emitted ${unknownPart(part)}; the parts of a response are ${known.join(", ")}`
        )
    }
  }

  said(): ReadonlyArray<TextPart> {
    const parts: ReadonlyArray<Partial<AnsweredPart> | undefined> = this.content ?? []
    const texts = parts.map((part) => (part?._tag === "text" ? part.text : undefined))
    // A client may be written without types.
    return [...texts, this.text].flatMap((said) =>
      typeof said === "string" && said !== "" ? [text(said)] : []
    )
  }

  hasContent(): boolean {
    return this.seen || this.content !== undefined
  }

  response(): ModelResponse | undefined {
    if (this.finish === undefined) return undefined
    this.endText()
    this.endReasoning()
    const { _tag: _, ...ending } = this.finish
    return { content: this.content ?? [], ...ending }
  }

  /** Most responses have one part. An array literal of one part takes less memory than an empty array that grows. */
  private push(part: AnsweredPart): void {
    if (this.content === undefined) this.content = [part]
    else this.content.push(part)
  }

  private endText(end?: Extract<ModelPart, { readonly _tag: "text-end" }>): void {
    const text = end?.text ?? this.text
    this.text = ""
    if (text === "" && end?.payload === undefined) return
    this.push({ _tag: "text", text, ...replayOf(end) } satisfies TextPart)
  }

  private endReasoning(end?: Extract<ModelPart, { readonly _tag: "reasoning-end" }>): void {
    const text = end?.text ?? this.reasoning
    this.reasoning = ""
    if (text === "" && end?.payload === undefined) return
    this.push({ _tag: "reasoning", text, ...replayOf(end) } satisfies ReasoningPart)
  }
}

const replayOf = (end: Replay | undefined) => defined({ provider: end?.provider, payload: end?.payload })

/** Returns the parts of a complete response, as a stream emits them. */
export const partsOf = (response: ModelResponse): ReadonlyArray<ModelPart> => {
  const parts: Array<ModelPart> = []
  for (const part of response.content) {
    switch (part._tag) {
      case "text":
        parts.push({ _tag: "text-delta", delta: part.text })
        if (part.payload !== undefined) parts.push({ _tag: "text-end", ...replayOf(part) })
        break
      case "reasoning": {
        parts.push(
          { _tag: "reasoning-delta", delta: part.text },
          { _tag: "reasoning-end", ...replayOf(part) }
        )
        break
      }
      case "file":
        parts.push({ _tag: "file", file: part })
        break
      case "toolCall": {
        const { _tag: _, ...call } = part
        parts.push({ _tag: "tool-call", ...call })
      }
    }
  }
  const { content: _, ...ending } = response
  parts.push({ _tag: "finish", ...ending })
  return parts
}
