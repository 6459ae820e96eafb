/**
 * Emits the pieces of an answer one after the other, although a provider may write several of them at the same time: by their places, or,
 * for libraries around models, as blocks that each have an id.
 *
 * The first piece that is still open is emitted as it grows; the others wait for their turn with what they have so far. When a
 * piece is closed and the provider's final word differs from the sum of what was emitted, the final word is emitted with its end.
 */
import type * as Schema from "effect/Schema"
import type { ModelPart } from "../ModelPart.ts"
import { countOf, fieldsOf } from "./fields.ts"

type Emit = (part: ModelPart) => void

/** One block or item of an answer. Changed in place. */
export interface Piece {
  /** Its place among the others. */
  readonly index: number
  readonly kind: "text" | "reasoning" | "other"
  /** What is emitted as it grows. */
  text: string
  /** Length of the part of `text` that was emitted. */
  emitted: number
  /** How it ends; `undefined` while it is open. */
  ending: Ending | undefined
}

/** How a piece ends. */
export interface Ending {
  /** The provider's final word on a text. Default: what was written. */
  readonly text?: string
  /** What the provider wants back with it, or in its place. */
  readonly payload?: Schema.Json
  /** Whether the end of a text is emitted even without a payload. */
  readonly emitsEnd?: boolean
  /** The whole of a piece that is neither text nor reasoning. */
  readonly part?: ModelPart
}

/** The pieces of one answer. Changed in place. */
export interface Pieces<P extends Piece> {
  readonly at: (index: number) => P | undefined
  readonly add: (piece: P, emit: Emit) => P
  /** Adds to a text that is emitted as it grows. */
  readonly write: (piece: P, delta: string, emit: Emit) => void
  readonly close: (piece: P, ending: Ending, emit: Emit) => void
  /** By place. */
  readonly all: () => ReadonlyArray<P>
  /** No answer has that many; putting them in order would take its time. */
  readonly areTooMany: () => boolean
}

/** How many pieces, or calls, an answer may have. */
export const mostPieces = 10_000

/** The place that a provider says a piece has, where that can be one. */
export const placeIn = (value: unknown): number | undefined => {
  const place = countOf(value)
  return place !== undefined && place < 1e9 ? place : undefined
}

/** No pieces yet. `provider` is who may be sent payloads back. */
export const makePieces = <P extends Piece>(provider: string): Pieces<P> => {
  const pieces = new Map<number, P>()
  const waiting: Array<P> = []

  const grow = (piece: P, emit: Emit) => {
    if (piece.kind === "other" || piece.emitted === piece.text.length) return
    const delta = piece.emitted === 0 ? piece.text : piece.text.slice(piece.emitted)
    piece.emitted = piece.text.length
    emit(piece.kind === "text" ? { _tag: "text-delta", delta } : { _tag: "reasoning-delta", delta })
  }

  const end = (piece: P, ending: Ending, emit: Emit) => {
    const replay = ending.payload === undefined ? {} : { provider, payload: ending.payload }
    if (piece.kind === "other") {
      if (ending.part !== undefined) emit(ending.part)
      else if (ending.payload !== undefined) emit({ _tag: "reasoning-end", ...replay })
      return
    }
    const whole = ending.text ?? piece.text
    const agrees = whole.startsWith(piece.text.slice(0, piece.emitted))
    if (agrees) {
      piece.text = whole
      grow(piece, emit)
    }
    if (agrees && ending.payload === undefined && ending.emitsEnd !== true) return
    emit({
      _tag: piece.kind === "text" ? "text-end" : "reasoning-end",
      ...(agrees ? {} : { text: whole }),
      ...replay
    })
  }

  /** Emits what is in order. */
  const emitReady = (emit: Emit) => {
    for (let first = waiting[0]; first !== undefined; first = waiting[0]) {
      if (first.ending === undefined) return grow(first, emit)
      end(first, first.ending, emit)
      waiting.shift()
    }
  }

  return {
    at: (index) => pieces.get(index),
    add: (piece, emit) => {
      pieces.set(piece.index, piece)
      const last = waiting.at(-1)
      if (last === undefined || last.index < piece.index) waiting.push(piece)
      else {
        const place = waiting.findIndex((other) => other.index > piece.index)
        // No piece gets in before one that was emitted in part.
        waiting.splice(place === 0 && waiting[0]!.emitted > 0 ? 1 : place, 0, piece)
      }
      emitReady(emit)
      return piece
    },
    write: (piece, delta, emit) => {
      if (piece.ending !== undefined || delta === "") return
      const isCurrent = piece === waiting[0] && piece.emitted === piece.text.length
      piece.text += delta
      if (!isCurrent) return
      // Not by `grow`: cutting the end off a text that is put together piece by piece costs as much as the whole of it.
      piece.emitted = piece.text.length
      emit(piece.kind === "text" ? { _tag: "text-delta", delta } : { _tag: "reasoning-delta", delta })
    },
    close: (piece, ending, emit) => {
      if (piece.ending !== undefined) return
      piece.ending = ending
      if (piece === waiting[0]) emitReady(emit)
    },
    all: () => [...pieces.values()].sort((a, b) => a.index - b.index),
    areTooMany: () => pieces.size > mostPieces
  }
}

type Kind = "text" | "reasoning"

/**
 * Turns blocks that each have an id, as the libraries around models have them, into parts. Blocks may overlap. Changed in place: one lives for one
 * answer.
 */
export interface Blocks {
  readonly start: (kind: Kind, id: string, payload?: Schema.JsonObject) => void
  /** A block that was not started is. */
  readonly delta: (kind: Kind, id: string, delta: string, payload?: Schema.JsonObject) => void
  readonly end: (kind: Kind, id: string, payload?: Schema.JsonObject) => void
  /** Ends every block that is still open; before a call, a file or the end of the answer. */
  readonly endAll: () => void
}

interface Block extends Piece {
  readonly kind: Kind
  readonly id: string
  payload: Schema.JsonObject
}

/** No blocks yet. Payloads are replayed to `provider` alone. */
export const makeBlocks = (provider: string, emit: (part: ModelPart) => void): Blocks => {
  const pieces = makePieces<Block>(provider)
  const open = { text: new Map<string, Block>(), reasoning: new Map<string, Block>() }
  let count = 0

  const blockOf = (kind: Kind, id: string, payload: Schema.JsonObject | undefined): Block => {
    let block = open[kind].get(id)
    if (block === undefined) {
      block = { index: count++, kind, id, text: "", emitted: 0, ending: undefined, payload: none }
      open[kind].set(id, pieces.add(block, emit))
    }
    if (payload !== undefined) block.payload = joined(block.payload, payload)
    return block
  }

  const close = (block: Block) => {
    const { id, kind, payload, text } = block
    open[kind].delete(id)
    const hasPayload = Object.keys(payload).length > 0
    pieces.close(block, hasPayload ? { payload } : { emitsEnd: text !== "" }, emit)
  }

  return {
    start: blockOf,
    delta: (kind, id, delta, payload) => pieces.write(blockOf(kind, id, payload), delta, emit),
    end: (kind, id, payload) => close(blockOf(kind, id, payload)),
    endAll: () => {
      for (const blocks of Object.values(open)) blocks.forEach(close)
    }
  }
}

const none: Schema.JsonObject = {}

/** Each namespace of a payload adds to what came before, as a signature does that comes with the last delta. */
const joined = (before: Schema.JsonObject, more: Schema.JsonObject): Schema.JsonObject => {
  const added = Object.entries(more).map(([name, value]) => {
    const [known, added] = [fieldsOf(before[name]), fieldsOf(value)]
    return [name, known === undefined || added === undefined ? value : { ...known, ...added }]
  })
  return { ...before, ...Object.fromEntries(added) }
}
