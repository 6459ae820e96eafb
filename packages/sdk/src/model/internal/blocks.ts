/**
 * From a stream of blocks that each have an id, as the libraries around models have them, to the parts of an answer.
 *
 * Blocks may overlap; the parts of an answer may not. The block that began first streams, the others wait until it ends.
 */
import type * as Schema from "effect/Schema"
import type { ModelPart } from "../ModelPart.ts"

/** Turns blocks into parts. Changed in place: one lives for one answer. */
export interface Blocks {
  readonly start: (kind: "text" | "reasoning", id: string, payload?: Schema.JsonObject) => void
  /** A block that was not started is. */
  readonly delta: (kind: "text" | "reasoning", id: string, delta: string, payload?: Schema.JsonObject) => void
  readonly end: (kind: "text" | "reasoning", id: string, payload?: Schema.JsonObject) => void
  /** Ends every block that is still open; before a call, a file or the end of the answer. */
  readonly endAll: () => void
}

interface Block {
  readonly kind: "text" | "reasoning"
  readonly key: string
  waiting: string
  payload: Schema.JsonObject
  isEmpty: boolean
  isEnded: boolean
}

/** No blocks yet. Payloads are given to `provider` again, and to nobody else. */
export const makeBlocks = (provider: string, emit: (part: ModelPart) => void): Blocks => {
  const open: Array<Block> = []

  const blockOf = (kind: Block["kind"], id: string): Block => {
    const key = `${kind}:${id}`
    let block = open.find((block) => block.key === key && !block.isEnded)
    if (block === undefined) {
      block = { kind, key, waiting: "", payload: {}, isEmpty: true, isEnded: false }
      open.push(block)
    }
    return block
  }

  /** Emits what may go out: all of the first block, and the next ones as the first ones end. */
  const advance = () => {
    for (let block = open[0]; block !== undefined; block = open[0]) {
      if (block.waiting !== "") {
        emit({ _tag: block.kind === "text" ? "text-delta" : "reasoning-delta", delta: block.waiting })
        block.waiting = ""
      }
      if (!block.isEnded) return
      open.shift()
      const hasPayload = Object.keys(block.payload).length > 0
      if (block.isEmpty && !hasPayload) continue
      emit({
        _tag: block.kind === "text" ? "text-end" : "reasoning-end",
        ...(hasPayload ? { provider, payload: block.payload } : {})
      })
    }
  }

  /** Each namespace of a payload adds to what came before, as a signature does that comes with the last delta. */
  const add = (block: Block, payload: Schema.JsonObject | undefined) => {
    for (const [name, value] of Object.entries(payload ?? {})) {
      const before = block.payload[name]
      block.payload = {
        ...block.payload,
        [name]: isObject(before) && isObject(value) ? { ...before, ...value } : value
      }
    }
  }

  return {
    start: (kind, id, payload) => add(blockOf(kind, id), payload),
    delta: (kind, id, delta, payload) => {
      const block = blockOf(kind, id)
      add(block, payload)
      if (delta === "") return
      block.waiting += delta
      block.isEmpty = false
      advance()
    },
    end: (kind, id, payload) => {
      const block = blockOf(kind, id)
      add(block, payload)
      block.isEnded = true
      advance()
    },
    endAll: () => {
      for (const block of open) block.isEnded = true
      advance()
    }
  }
}

const isObject = (value: Schema.Json | undefined): value is Schema.JsonObject =>
  typeof value === "object" && value !== null && !Array.isArray(value)
