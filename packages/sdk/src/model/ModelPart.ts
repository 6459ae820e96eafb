/**
 * The parts in which a model's answer streams in, and how they become one answer.
 *
 * Parts are plain objects without a schema: there may be thousands in a second, and none of them is ever stored. The answer
 * that they add up to is.
 *
 * @since 0.1.0
 */
import type * as Schema from "effect/Schema"
import { defined } from "../domain/internal/defined.ts"
import type { FilePart, ReasoningPart, TextPart } from "../domain/Message.ts"
import type { AnsweredPart, FinishReason } from "../domain/RunEvent.ts"
import type { ModelUsage } from "../domain/Usage.ts"

/** What a provider wants back with a piece of an answer, and which provider may be sent it. */
export interface Replay {
  readonly provider?: string
  readonly payload?: Schema.Json
}

/** One part of a streamed answer. A stream ends with exactly one `finish`. */
export type ModelPart =
  | { readonly _tag: "text-delta"; readonly delta: string }
  /**
   * Ends a piece of text; only needed when `payload`, the provider's own item, has to be kept for replay, or when the deltas do
   * not add up to `text`.
   */
  | ({ readonly _tag: "text-end"; readonly text?: string } & Replay)
  | { readonly _tag: "reasoning-delta"; readonly delta: string }
  /** Ends a piece of reasoning; `payload` is the provider's own item, kept for replay, and `text` is as for a text. */
  | ({ readonly _tag: "reasoning-end"; readonly text?: string } & Replay)
  /** A piece of the arguments of a call that is being written; for display only. */
  | {
      readonly _tag: "tool-call-delta"
      readonly index: number
      readonly name: string
      readonly delta: string
    }
  /** A whole call, ready to be acted on. */
  | ({
      readonly _tag: "tool-call"
      readonly providerCallId: string
      readonly name: string
      /** JSON text; "" means no arguments. */
      readonly arguments: string
    } & Replay)
  | { readonly _tag: "file"; readonly file: FilePart }
  | ({ readonly _tag: "finish" } & Ending)

/** How an answer ended, and what it took. */
export interface Ending {
  readonly finishReason: FinishReason
  /** Of all requests that were made for the answer. */
  readonly usage: ModelUsage
  /** The input of the last request alone, where `usage` is of several. */
  readonly lastInputTokens?: number
  /** The name of the model profile that answered. */
  readonly profile?: string
  /**
   * The provider stopped in the middle of work of its own, and goes on when it is sent back what it has said, together with these
   * fields. The clients of this SDK see to that themselves.
   */
  readonly paused?: Schema.JsonObject
}

/** The last part of a stream. */
export type Finish = Extract<ModelPart, { readonly _tag: "finish" }>

/** A whole answer. */
export interface ModelResponse extends Ending {
  readonly content: ReadonlyArray<AnsweredPart>
}

/** Adds parts up to an answer. Changed in place: one lives for one model call. */
export interface Collector {
  readonly add: (part: ModelPart) => void
  /** Whether anything that a person would see has arrived. */
  readonly hasContent: () => boolean
  /** The answer; `undefined` while no `finish` has arrived. */
  readonly response: () => ModelResponse | undefined
}

/** An empty collector. */
export const makeCollector = (): Collector => new PartCollector()

class PartCollector implements Collector {
  private content: Array<AnsweredPart> | undefined = undefined
  private text = ""
  private reasoning = ""
  private finish: Finish | undefined = undefined
  private seen = false

  add(part: ModelPart): void {
    switch (part._tag) {
      case "text-delta":
        if (this.reasoning !== "") this.endReasoning()
        this.text += part.delta
        this.seen = true
        return
      case "text-end":
        this.endReasoning()
        this.endText(part)
        return
      case "reasoning-delta":
        this.endText()
        this.reasoning += part.delta
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
    }
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

  /** Most answers have one part, and an empty array that grows makes room for many. */
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

/** The parts of a whole answer, as a stream would have brought them. */
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
