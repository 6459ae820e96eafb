/**
 * A bounded buffer of the updates that a reader of `Fermata.events` has not read yet.
 *
 * Parts of one text are joined into one entry. If the transient updates exceed their limit, the oldest are dropped, and the next update
 * with a text has the number of dropped characters (`omitted`). Events are never lost: if they exceed their limit, only the latest is kept,
 * and the reader reads those before it from the store.
 */
import type { RunUpdate } from "../../agent/RunUpdate.ts"
import type { Buffer, Taken } from "../../dispatch/internal/events/Reader.ts"
import type { Mark, Piece } from "../../dispatch/internal/events/signals.ts"
import { sizeOf } from "../../run/internal/updateSize.ts"

/** An update that is not stored. */
type Transient = Exclude<RunUpdate, { readonly _tag: "event" }>

/** The limit of a backlog in characters, for transient updates and for events alike. */
export const mostCharacters = 256 * 1024

/** The limit of a backlog in events. */
export const mostEvents = 256

/** The backlog of one reader. */
export class Backlog implements Buffer<Piece> {
  private entries: Array<Entry | RunUpdate | Mark> = []
  /** The entries to which the next part of a text, or the next progress of a call, is added, by `keyOf`. An event closes all of them. */
  private readonly open = new Map<string, Entry>()
  /** The size of the transient updates, in characters. */
  private transientSize = 0
  private events = { count: 0, size: 0 }
  /** The mark after the last event. */
  private mark: Mark | undefined
  /** No entry before this index is a transient update. */
  private first = 0
  /** The dropped characters that no update has reported yet. */
  private omitted = 0

  get isEmpty(): boolean {
    return this.entries.length === 0
  }

  push(update: Piece): void {
    if (update._tag === "event") return this.pushEvent(update)
    if (update._tag === "mark") return this.pushMark(update)
    const key = keyOf(update)
    const last = key === undefined ? undefined : this.open.get(key)
    if (last !== undefined && last.isContinuedBy(update)) {
      const before = last.size
      last.add(update)
      this.transientSize += last.size - before
    } else {
      const entry = new Entry(update)
      this.entries.push(entry)
      this.transientSize += entry.size
      if (key !== undefined) this.open.set(key, entry)
    }
    this.shrink()
  }

  take(): Taken<Piece> {
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
    this.makeRoom(added)
    this.mark = undefined
    this.open.clear()
    this.events = { count: this.events.count + 1, size: this.events.size + added }
    this.entries.push(update)
  }

  /** Adds a mark. Transient updates after it are not joined with those before it, unless it repeats the last mark. */
  private pushMark(mark: Mark): void {
    const { isStored, revision } = this.mark ?? {}
    if (isStored === mark.isStored && revision === mark.revision) return
    this.makeRoom(0)
    this.mark = mark
    this.open.clear()
    this.events.count += 1
    this.entries.push(mark)
  }

  /** Forgets everything if there is no room for another event. */
  private makeRoom(size: number): void {
    if (this.events.count < mostEvents && this.events.size + size <= mostCharacters) return
    // The reader will read earlier events from the store. The transient updates between those would come too late.
    this.forget()
    this.clear()
  }

  /** Counts all transient updates as omitted. */
  private forget(): void {
    for (const entry of this.entries) if (entry instanceof Entry) this.omitted += entry.lost
  }

  private clear(): void {
    this.entries = []
    this.open.clear()
    this.transientSize = 0
    this.events = { count: 0, size: 0 }
    this.mark = undefined
    this.first = 0
  }

  /** Drops the oldest transient updates until the rest is within the limit. */
  private shrink(): void {
    while (this.transientSize > mostCharacters) {
      const entry = this.entries[this.first]
      if (!(entry instanceof Entry)) {
        this.first += 1
        continue
      }
      const before = entry.size
      entry.dropAtLeast(this.transientSize - mostCharacters)
      this.transientSize -= before - entry.size
      if (entry.text > 0) continue
      this.omitted += entry.lost
      this.transientSize -= entry.size
      this.entries.splice(this.first, 1)
      for (const [key, open] of this.open) if (open === entry) this.open.delete(key)
    }
  }
}

/** Parts shorter than this many characters are joined at once, because each part in the list costs memory of its own. */
const shortest = 4096

/** A transient update, joined with those that continue it. */
class Entry {
  private update: Transient
  private pieces: Array<string>
  /** The index of the first piece that was not dropped. */
  private from = 0
  /** The length of its text in characters. */
  text: number
  /** The number of characters that were dropped before its text. */
  omitted = 0
  /** The size of its other fields. */
  private readonly rest: number
  private readonly isText: boolean

  constructor(update: Transient) {
    const text = textOf(update)
    this.isText = text !== undefined
    this.update = update
    this.omitted = "omitted" in update ? (update.omitted ?? 0) : 0
    this.pieces = text === undefined ? [] : [text]
    this.text = text?.length ?? 0
    this.rest = sizeOf(update) - this.text
  }

  get size(): number {
    return this.text + this.rest
  }

  /** The number of omitted characters if it is dropped. */
  get lost(): number {
    return this.isText ? this.text + this.omitted : this.size
  }

  isContinuedBy(update: Transient): boolean {
    const { _tag } = this.update
    if ("omitted" in update) return false
    if (this.update._tag === "output" && update._tag === "output") return this.update.stream === update.stream
    if (_tag !== "delta" || update._tag !== "delta") return _tag === update._tag
    return partKey(this.update) === partKey(update)
  }

  add(update: Transient): void {
    const text = textOf(update) ?? ""
    this.update = update
    // A progress message replaces the one before.
    if (update._tag === "progress") {
      this.omitted += this.text
      this.pieces = [text]
      this.from = 0
      this.text = text.length
      return
    }
    const last = this.pieces.length - 1
    const short = last >= this.from && this.pieces[last]!.length < shortest
    // A string that was concatenated from many is a tree in memory until it is copied.
    if (short && this.pieces[last]!.length + text.length >= shortest) {
      this.pieces[last] = copied(this.pieces[last]! + text)
    } else if (short) this.pieces[last] += text
    else this.pieces.push(text)
    this.text += text.length
  }

  /** Drops at least `characters` from the beginning of its text, or all of it. */
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
    const omission = before === 0 ? {} : { omitted: before }
    switch (update._tag) {
      case "delta":
        return hasDelta(update) ? { ...update, ...omission, part: { ...update.part, delta: text } } : update
      case "output":
        return { ...update, ...omission, chunk: text }
      case "progress":
        return { ...update, ...omission, message: text }
      default:
        return update
    }
  }
}

/** Copies a string. A slice would keep the whole original in memory. */
const copied = (text: string): string => JSON.parse(JSON.stringify(text)) as string

/** The key of the entry that an update is added to; `undefined` if it gets an entry of its own. */
const keyOf = (update: Transient): string | undefined => {
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

type Delta = Extract<Transient, { readonly _tag: "delta" }>

type Growing = Extract<Delta["part"], { readonly delta: string }>

const hasDelta = (update: Delta): update is Delta & { readonly part: Growing } => "delta" in update.part

/** Identifies the text of a response that a part continues. A complete part continues none, and is its own key. */
const partKey = (update: Delta): unknown => {
  const { part } = update
  if (part._tag === "tool-call-delta") return `${part.index} ${part.name}`
  return hasDelta(update) ? part._tag : part
}

const textOf = (update: Transient): string | undefined => {
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
