/**
 * Removes secrets from the parts of a streamed response before subscribers receive them.
 *
 * The deltas of a text, of a reasoning or of a call's arguments, joined, equal the text in the journal. A delta without the mark of a
 * secret is passed on at once, up to its last word; what may be a secret waits for the rest of its sentence or line, and at most for the
 * end of its part.
 */
import type { ModelPart } from "../../model/ModelPart.ts"
import type { Scrubber, ScrubStream } from "../../tool/Scrubber.ts"
import { cleanPart, withoutPayload } from "./redact.ts"

type DeltaTag = "text-delta" | "reasoning-delta" | "tool-call-delta"
type Delta = Extract<ModelPart, { readonly _tag: DeltaTag }>
type CallDelta = Extract<ModelPart, { readonly _tag: "tool-call-delta" }>
type End = Extract<ModelPart, { readonly _tag: "text-end" | "reasoning-end" }>

/** A text that grows. */
interface Growing {
  /** Its last part. */
  part: Delta
  readonly stream: ScrubStream
  /** The text that is held back; `undefined` once anything was removed. */
  unshown: string | undefined
}

/**
 * Scrubs the parts of one response and publishes them, in order. The end of a growing text is held back while it may be the beginning of a
 * secret.
 */
export class ShownParts {
  readonly #scrubber: Required<Scrubber>
  readonly #publish: (part: ModelPart) => void
  readonly #growing = new Map<string, Growing>()
  /** The name of the tool that the last piece of a call had. */
  #name = { given: "", shown: "" }

  constructor(scrubber: Required<Scrubber>, publish: (part: ModelPart) => void) {
    this.#scrubber = scrubber
    this.#publish = publish
  }

  add(part: ModelPart): void {
    switch (part._tag) {
      case "text-delta":
        this.#end("reasoning-delta")
        return this.#grow("text-delta", part)
      case "reasoning-delta":
        this.#end("text-delta")
        return this.#grow("reasoning-delta", part)
      case "tool-call-delta":
        this.#endTexts()
        return this.#grow(`${part.index}`, this.#named(part))
      case "text-end":
        this.#end("reasoning-delta")
        return this.#publish(this.#ended(part, this.#end("text-delta")))
      case "reasoning-end":
        this.#end("text-delta")
        return this.#publish(this.#ended(part, this.#end("reasoning-delta")))
      case "tool-call": {
        this.#endTexts()
        // With several calls under way, it is not known which one this is.
        if (this.#growing.size === 1) this.end()
        return this.#publish(cleanPart(this.#scrubber, part))
      }
      default:
        this.end()
        return this.#publish(cleanPart(this.#scrubber, part))
    }
  }

  /** Publishes what was held back. */
  end(): void {
    for (const key of Array.from(this.#growing.keys())) this.#end(key)
  }

  #endTexts(): void {
    this.#end("text-delta")
    this.#end("reasoning-delta")
  }

  #grow(key: string, part: Delta): void {
    let growing = this.#growing.get(key)
    if (growing === undefined) {
      growing = { part, stream: this.#scrubber.redactStream(), unshown: "" }
      this.#growing.set(key, growing)
    }
    growing.part = part
    if (growing.unshown !== undefined) growing.unshown += part.delta
    this.#show(growing, growing.stream.push(part.delta))
  }

  #show(growing: Growing, delta: string): void {
    const { part, unshown } = growing
    growing.unshown = unshown?.startsWith(delta) === true ? unshown.slice(delta.length) : undefined
    if (delta !== "") this.#publish(delta === part.delta ? part : { ...part, delta })
  }

  /** Publishes the rest of a text. Returns whether it lost a secret. */
  #end(key: string): boolean {
    const growing = this.#growing.get(key)
    if (growing === undefined) return false
    this.#growing.delete(key)
    this.#show(growing, growing.stream.end())
    return growing.unshown !== ""
  }

  /** The end of a text. The data of a provider about another text than the one that is shown is left out, as in the journal. */
  #ended(part: End, isChanged: boolean): End {
    const clean = cleanPart(this.#scrubber, part)
    return isChanged ? withoutPayload(clean) : clean
  }

  /** The part with the name of its tool as the journal has it: a model may make up a name. */
  #named(part: CallDelta): CallDelta {
    if (part.name !== this.#name.given)
      this.#name = { given: part.name, shown: this.#scrubber.redact(part.name) }
    return this.#name.shown === part.name ? part : { ...part, name: this.#name.shown }
  }
}
