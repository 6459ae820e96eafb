/**
 * The updates that a reader has not read yet, in bounded memory.
 *
 * Pieces of one text grow together instead of piling up. Of what passes by without being kept, the oldest is left out when there is too much,
 * and the next piece says how much that was. Events are never lost: when there are too many, only the latest is kept, and the reader
 * reads those before it from the store.
 */
import type { RunUpdate } from "../../agent/RunUpdate.ts"
import type { Buffer, Taken } from "../../dispatch/internal/events/Reader.ts"
import { sizeOf } from "../../run/internal/updateSize.ts"

type Passing = Exclude<RunUpdate, { readonly _tag: "event" }>

/** Characters of what passes by that one reader may be behind. */
export const mostCharacters = 256 * 1024

/** Events that one reader may be behind, and their characters. */
export const mostEvents = 256

/** One reader's backlog. */
export class Backlog implements Buffer<RunUpdate> {
  private entries: Array<Entry | RunUpdate> = []
  /** The entries that the next piece of a text, or the next message about a call, is put into; until the next event. */
  private readonly open = new Map<string, Entry>()
  /** Characters of what passes by, and of events. */
  private passing = 0
  private events = { count: 0, size: 0 }
  /** Where the oldest entry of what passes by is at the earliest. */
  private first = 0
  /** Characters that were left out, until a piece can say so. */
  private omitted = 0

  get isEmpty(): boolean {
    return this.entries.length === 0
  }

  push(update: RunUpdate): void {
    if (update._tag === "event") return this.pushEvent(update)
    const key = keyOf(update)
    const last = key === undefined ? undefined : this.open.get(key)
    if (last !== undefined && last.isContinuedBy(update)) {
      const before = last.size
      last.add(update)
      this.passing += last.size - before
    } else {
      const entry = new Entry(update)
      this.entries.push(entry)
      this.passing += entry.size
      if (key !== undefined) this.open.set(key, entry)
    }
    this.shrink()
  }

  take(): Taken<RunUpdate> {
    const pieces = this.entries.map((entry) => (entry instanceof Entry ? this.taken(entry) : entry))
    this.clear()
    return { pieces, skipped: 0 }
  }

  private taken(entry: Entry): RunUpdate {
    const update = entry.take(this.omitted)
    if ("omitted" in update) this.omitted = 0
    return update
  }

  private pushEvent(update: RunUpdate): void {
    const added = sizeOf(update)
    if (this.events.count === mostEvents || this.events.size + added > mostCharacters) {
      // What passed by before events that are still to be read is as old as these.
      this.forget()
      this.clear()
    }
    this.open.clear()
    this.events = { count: this.events.count + 1, size: this.events.size + added }
    this.entries.push(update)
  }

  /** Counts what is left out. */
  private forget(): void {
    for (const entry of this.entries) if (entry instanceof Entry) this.omitted += entry.lost
  }

  private clear(): void {
    this.entries = []
    this.open.clear()
    this.passing = 0
    this.events = { count: 0, size: 0 }
    this.first = 0
  }

  /** Leaves out the oldest of what passes by, until the rest fits. */
  private shrink(): void {
    while (this.passing > mostCharacters) {
      const entry = this.entries[this.first]
      if (!(entry instanceof Entry)) {
        this.first += 1
        continue
      }
      const before = entry.size
      entry.dropAtLeast(this.passing - mostCharacters)
      this.passing -= before - entry.size
      if (entry.text > 0) continue
      this.omitted += entry.lost
      this.passing -= entry.size
      this.entries.splice(this.first, 1)
      for (const [key, open] of this.open) if (open === entry) this.open.delete(key)
    }
  }
}

/** Pieces shorter than this are put together at once, so that many short ones do not take more than they hold. */
const shortest = 4096

/** An update that passes by, with all that has been added to it. */
class Entry {
  private update: Passing
  private pieces: Array<string>
  /** Where the pieces begin that were not left out. */
  private from = 0
  /** Characters of its text. */
  text: number
  /** Characters before it that were left out. */
  omitted = 0
  /** What it takes besides its text. */
  private readonly rest: number
  private readonly isText: boolean

  constructor(update: Passing) {
    const text = textOf(update)
    this.isText = text !== undefined
    this.update = update
    this.pieces = text === undefined ? [] : [text]
    this.text = text?.length ?? 0
    this.rest = sizeOf(update) - this.text
  }

  get size(): number {
    return this.text + this.rest
  }

  /** Characters that are left out with it. */
  get lost(): number {
    return this.isText ? this.text + this.omitted : this.size
  }

  isContinuedBy(update: Passing): boolean {
    const { _tag } = this.update
    if (_tag !== "delta" || update._tag !== "delta") return _tag === update._tag
    return partKey(this.update) === partKey(update)
  }

  add(update: Passing): void {
    const text = textOf(update) ?? ""
    this.update = update
    // A new message takes the place of the one before.
    if (update._tag === "progress") {
      this.omitted += this.text
      this.pieces = [text]
      this.from = 0
      this.text = text.length
      return
    }
    const last = this.pieces.length - 1
    const short = last >= this.from && this.pieces[last]!.length < shortest
    // What is put together of many is a tree of these until it is copied.
    if (short && this.pieces[last]!.length + text.length >= shortest) {
      this.pieces[last] = copied(this.pieces[last]! + text)
    } else if (short) this.pieces[last] += text
    else this.pieces.push(text)
    this.text += text.length
  }

  /** Leaves out its beginning: so many characters at least, as long as there are any. */
  dropAtLeast(characters: number): void {
    if (!this.isText) return
    let left = characters
    while (left > 0 && this.from < this.pieces.length) {
      const piece = this.pieces[this.from]!
      const isLast = this.from === this.pieces.length - 1
      const dropped = isLast ? Math.min(left, piece.length) : piece.length
      if (dropped === piece.length) {
        this.pieces[this.from] = ""
        this.from += 1
      } else this.pieces[this.from] = copied(piece.slice(dropped))
      this.text -= dropped
      this.omitted += dropped
      left -= dropped
    }
    if (this.from < 64) return
    this.pieces.splice(0, this.from)
    this.from = 0
  }

  take(omittedBefore: number): RunUpdate {
    const { omitted, update } = this
    const text = this.pieces.slice(this.from).join("")
    const before = omitted + omittedBefore
    const said = before === 0 ? {} : { omitted: before }
    switch (update._tag) {
      case "delta":
        return hasDelta(update) ? { ...update, ...said, part: { ...update.part, delta: text } } : update
      case "output":
        return { ...update, ...said, chunk: text }
      case "progress":
        return { ...update, ...said, message: text }
      default:
        return update
    }
  }
}

/** A copy: part of a text keeps all of it in memory. */
const copied = (text: string): string => JSON.parse(JSON.stringify(text)) as string

/** What has one text, or one latest message, until the next event. */
const keyOf = (update: Passing): string | undefined => {
  switch (update._tag) {
    case "delta":
      return `delta ${update.agentRunId} ${update.turn}`
    case "output":
    case "progress":
      return `${update._tag} ${update.callId}`
    default:
      return undefined
  }
}

type Delta = Extract<Passing, { readonly _tag: "delta" }>

type Growing = Extract<Delta["part"], { readonly delta: string }>

const hasDelta = (update: Delta): update is Delta & { readonly part: Growing } => "delta" in update.part

/** Which text of the answer a part belongs to; parts that are whole belong to none. */
const partKey = (update: Delta): unknown => {
  const { part } = update
  if (part._tag === "tool-call-delta") return `${part.index} ${part.name}`
  return hasDelta(update) ? part._tag : part
}

const textOf = (update: Passing): string | undefined => {
  switch (update._tag) {
    case "delta":
      return hasDelta(update) ? update.part.delta : undefined
    case "output":
      return update.chunk
    case "progress":
      return update.message
    default:
      return undefined
  }
}
