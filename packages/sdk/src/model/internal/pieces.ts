/**
 * Emits the pieces of a response one after the other, although a provider may interleave them. Providers identify a piece by its index,
 * libraries around models by the id of a block.
 *
 * The first open piece is emitted as it grows; the others are buffered until it is closed. If the provider's final text of a piece differs
 * from the deltas that were emitted, the end of the piece carries the final text.
 */
import type * as Schema from "effect/Schema"
import type { ModelPart } from "../ModelPart.ts"
import { countOf, fieldsOf } from "./fields.ts"

type Emit = (part: ModelPart) => void

/** One block or item of a response. Mutable. */
export interface Piece {
  /** Its position among the others. */
  readonly index: number
  readonly kind: "text" | "reasoning" | "other"
  /** The text so far, emitted in deltas. */
  text: string
  /** The length of the part of `text` that was emitted. */
  emitted: number
  /** `undefined` while the piece is open. */
  ending: Ending | undefined
}

/** The end of a piece: its final text, and the provider's data about it. */
export interface Ending {
  /** The provider's final text. Default: the sum of the deltas. */
  readonly text?: string
  /** Provider data that is sent back with the piece, or in its place. */
  readonly payload?: Schema.Json
  /** If `true`, the end of a text is emitted even without a payload. */
  readonly emitsEnd?: boolean
  /** The part to emit for a piece that is neither text nor reasoning. */
  readonly part?: ModelPart
}

/** The pieces of one response. Mutable. */
export interface Pieces<P extends Piece> {
  readonly at: (index: number) => P | undefined
  readonly add: (piece: P, emit: Emit) => P
  /** Appends a delta to a text or reasoning. */
  readonly write: (piece: P, delta: string, emit: Emit) => void
  readonly close: (piece: P, ending: Ending, emit: Emit) => void
  /** Returns the pieces, sorted by index. */
  readonly all: () => ReadonlyArray<P>
  /** Returns `true` above {@link mostPieces}, which no real response reaches: sorting more would take too long. */
  readonly areTooMany: () => boolean
}

/** The most pieces, or tool calls, of a response. */
export const mostPieces = 10_000

/** Returns a provider's index of a piece if it is a valid one. */
export const placeIn = (value: unknown): number | undefined => {
  const place = countOf(value)
  return place !== undefined && place < 1e9 ? place : undefined
}

/** Makes an empty list of pieces. Payloads are sent back only to `provider`. */
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

  /** Emits the closed pieces at the front, then what the first open one has so far. */
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
        // A piece that was emitted in part stays first.
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
      // Not by `grow`: slicing a string that was built by concatenation copies all of it.
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
 * Converts the blocks of one response to parts. Each block has an id, as in the libraries around models, and blocks may overlap. Mutable.
 */
export interface Blocks {
  readonly start: (kind: Kind, id: string, payload?: Schema.JsonObject) => void
  /** Appends a delta. Starts the block if it was not started. */
  readonly delta: (kind: Kind, id: string, delta: string, payload?: Schema.JsonObject) => void
  readonly end: (kind: Kind, id: string, payload?: Schema.JsonObject) => void
  /** Ends every open block, before a file or the end of the response. */
  readonly endAll: () => void
}

interface Block extends Piece {
  readonly kind: Kind
  readonly id: string
  payload: Schema.JsonObject
}

/** Makes an empty list of blocks. Payloads are sent back only to `provider`. */
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

/** Merges payloads by namespace: a later delta may add fields, such as a signature that arrives with the last one. */
const joined = (before: Schema.JsonObject, more: Schema.JsonObject): Schema.JsonObject => {
  const added = Object.entries(more).map(([name, value]) => {
    const [known, added] = [fieldsOf(before[name]), fieldsOf(value)]
    return [name, known === undefined || added === undefined ? value : { ...known, ...added }]
  })
  return { ...before, ...Object.fromEntries(added) }
}
