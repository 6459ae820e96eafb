/**
 * The events of one epoch, in one bounded list that all subscribers share.
 *
 * A subscriber is a number: the `seq` up to which it has read. The list has no copy per subscriber, so a subscriber that reads nothing costs
 * nothing. To stay bounded, the list merges the transient events that lie between two durable ones, by the text that they belong to; it never
 * merges across the place of a subscriber, which therefore receives no text twice. Durable events beyond {@link Bounds.keepEvents} are
 * replaced by their place in their journal, from which they are read again.
 */
import type { RuntimeEvent } from "../RuntimeEvent.ts"
import type { JournalPlace, RuntimeEventEnvelope } from "../RuntimeEventEnvelope.ts"
import { version } from "../RuntimeEventEnvelope.ts"

/** The bounds of what a history keeps in memory. */
export interface Bounds {
  /** Durable events, besides their places in the journals. */
  readonly keepEvents: number
  /** Characters of transient text of finished answers and outputs. */
  readonly keepText: number
}

/** The text to which a transient event belongs. Events of one stream can be merged. */
export interface TextStream {
  /** Set when a durable event contains the whole text. */
  isFinished: boolean
}

/** An element of the history. `event` is absent if it has to be read again from its place in the `journal`. */
export interface Entry {
  readonly seq: number
  readonly tsUnixMs: number
  event: RuntimeEvent | undefined
  readonly journal: JournalPlace | undefined
  readonly stream: TextStream | undefined
  size: number
}

/** The number of transient events after which they are merged. */
const mergeEvery = 1024

/** The most entries, counting places in journals. The oldest are dropped beyond. */
const mostEntries = 262_144

/** The most characters of one unfinished output. Its oldest part is dropped beyond; the `offset` of the rest shows it. */
const longestText = 4 * 1024 * 1024

export class EventHistory {
  private entries: Array<Entry> = []
  private head = 0
  private firstSeq = 1
  private unmerged = 0
  private mergedUpTo = 0
  private textSize = 0
  private durable = 0
  private over = false
  private readonly bounds: Bounds
  private readonly cursors = new Set<{ seq: number }>()
  private waiters: Array<() => void> = []

  constructor(bounds: Bounds) {
    this.bounds = bounds
  }

  /** The number of the last event. */
  get seq(): number {
    return this.head
  }

  /** The number of the first event that is not dropped. */
  get first(): number {
    return this.firstSeq
  }

  get isOver(): boolean {
    return this.over
  }

  /** The number of characters of transient text in memory. */
  get characters(): number {
    return this.textSize
  }

  /** The number of entries in memory. */
  get size(): number {
    return this.entries.length
  }

  push(event: RuntimeEvent, tsUnixMs: number, journal?: JournalPlace, stream?: TextStream): void {
    this.head += 1
    const size = stream === undefined ? 0 : textOf(event).length
    this.entries.push({ seq: this.head, tsUnixMs, event, journal, stream, size })
    if (stream === undefined) {
      if (journal !== undefined) this.durable += 1
    } else {
      this.textSize += size
      this.unmerged += 1
    }
    if (this.unmerged >= mergeEvery) this.compact()
    else if (this.durable > 2 * this.bounds.keepEvents || this.entries.length > mostEntries) this.compact()
    if (this.waiters.length > 0) this.wake()
  }

  /** Ends the history: subscribers that have read everything end. */
  end(): void {
    this.over = true
    this.wake()
  }

  /** Adds a subscriber that has read up to `seq`. */
  subscribe(seq: number): { seq: number } {
    const cursor = { seq }
    this.cursors.add(cursor)
    return cursor
  }

  unsubscribe(cursor: { seq: number }): void {
    this.cursors.delete(cursor)
  }

  /** The entries after `seq`, at most `limit`. */
  after(seq: number, limit: number): ReadonlyArray<Entry> {
    const from = this.indexAfter(seq)
    return this.entries.slice(from, from + limit)
  }

  /** Calls `wake` once, after the next event or the end. Returns the function that cancels it. */
  onNext(wake: () => void): () => void {
    this.waiters.push(wake)
    return () => {
      const at = this.waiters.indexOf(wake)
      if (at >= 0) this.waiters.splice(at, 1)
    }
  }

  private wake(): void {
    const { waiters } = this
    this.waiters = []
    for (const wake of waiters) wake()
  }

  /** The index of the first entry after `seq`: the entries are sorted by `seq`. */
  private indexAfter(seq: number): number {
    const { entries } = this
    let low = 0
    let high = entries.length
    // Usually the subscriber is near the end, where the numbers have no gaps.
    const behind = this.head - seq
    if (behind <= 0) return high
    const guess = high - behind
    if (guess >= 0 && guess < high && entries[guess]!.seq === seq + 1) return guess
    while (low < high) {
      const middle = (low + high) >>> 1
      if (entries[middle]!.seq <= seq) low = middle + 1
      else high = middle
    }
    return low
  }

  private compact(): void {
    this.merge()
    this.dropText()
    this.toPlaces()
    const tooMany = this.entries.length - mostEntries
    if (tooMany <= 0) return
    for (const entry of this.entries.splice(0, tooMany)) {
      this.textSize -= entry.size
      this.firstSeq = entry.seq + 1
    }
  }

  /** Merges the transient entries between durable ones and the places of subscribers, by stream. */
  private merge(): void {
    const { entries } = this
    const places = [...this.cursors].map(({ seq }) => seq).sort((one, other) => one - other)
    let from = this.indexAfter(this.mergedUpTo)
    // The transient entries that were merged last may take more.
    while (from > 0 && entries[from - 1]!.stream !== undefined) from -= 1
    let write = from
    let place = 0
    let segment = new Map<TextStream, Group>()
    const finish = () => {
      if (segment.size === 0) return
      for (const group of segment.values()) {
        if (group.first === group.last) continue
        const joined = joinedOf(group)
        this.textSize += joined.size - group.size
        // Numbered as the last one, so that a subscriber between them receives the whole.
        entries[group.at] = joined
      }
      segment = new Map()
    }
    for (let read = from; read < entries.length; read += 1) {
      const entry = entries[read]!
      while (place < places.length && places[place]! < entry.seq) {
        finish()
        place += 1
      }
      if (entry.stream === undefined) {
        finish()
        entries[write++] = entry
        continue
      }
      const group = segment.get(entry.stream)
      if (group === undefined) {
        const text = entry.event === undefined ? "" : textOf(entry.event)
        segment.set(entry.stream, { at: write, first: entry, last: entry, text, size: entry.size })
        entries[write++] = entry
      } else add(group, entry)
    }
    finish()
    entries.length = write
    // A joined entry is at the place of its first part and has the number of its last.
    sortSegments(entries, from)
    this.unmerged = 0
    this.mergedUpTo = this.head
  }

  /** Drops transient text that a durable event contains, oldest first, beyond `keepText`. */
  private dropText(): void {
    let excess = this.textSize - this.bounds.keepText
    if (excess <= 0) return
    this.entries = this.entries.filter(({ size, stream }) => {
      if (excess <= 0 || stream?.isFinished !== true) return true
      excess -= size
      this.textSize -= size
      return false
    })
  }

  /** Replaces the oldest durable events by their places in the journals, beyond `keepEvents`. */
  private toPlaces(): void {
    let excess = this.durable - this.bounds.keepEvents
    for (let index = 0; excess > 0 && index < this.entries.length; index += 1) {
      const entry = this.entries[index]!
      if (entry.journal === undefined || entry.event === undefined) continue
      entry.event = undefined
      excess -= 1
      this.durable -= 1
    }
  }
}

/** The envelope of an entry whose event is in memory, for a subscriber that has received everything up to `seq`. */
export const envelopeOf = (entry: Entry, event: RuntimeEvent, after: number): RuntimeEventEnvelope => {
  const { journal, seq, tsUnixMs } = entry
  const merged = seq - after
  if (journal !== undefined) {
    return merged === 1
      ? { v: version, seq, tsUnixMs, event, journal }
      : { v: version, seq, tsUnixMs, event, journal, merged }
  }
  return merged === 1 ? { v: version, seq, tsUnixMs, event } : { v: version, seq, tsUnixMs, event, merged }
}

const textOf = (event: RuntimeEvent): string => {
  switch (event._tag) {
    case "model.textDelta":
    case "model.reasoningDelta":
      return event.delta
    case "tool.output":
      return event.chunk
    case "tool.progress":
      return event.message
    default:
      return ""
  }
}

/** The transient entries of one stream between two durable ones, while they are being merged. */
interface Group {
  readonly at: number
  readonly first: Entry
  last: Entry
  text: string
  size: number
}

const add = (group: Group, entry: Entry): void => {
  const { event } = entry
  const text = event === undefined ? "" : textOf(event)
  group.text += event?._tag === "tool.progress" ? `\n${text}` : text
  group.size += entry.size
  group.last = entry
}

/** The entry that stands for a group: the joined text, or the lines of the progress messages. Of other events, the last one. */
const joinedOf = ({ first, last, text }: Group): Entry => {
  const { event } = last
  const { offset, text: joined } = cut(
    first.event !== undefined && "offset" in first.event ? first.event.offset : 0,
    text
  )
  switch (event?._tag) {
    case "model.textDelta":
    case "model.reasoningDelta":
      return { ...last, event: { ...event, offset, delta: joined }, size: joined.length }
    case "tool.output":
      return { ...last, event: { ...event, offset, chunk: joined }, size: joined.length }
    case "tool.progress":
      return { ...last, event: { ...event, message: joined }, size: joined.length }
    default:
      return last
  }
}

const cut = (offset: number, text: string): { readonly offset: number; readonly text: string } => {
  const excess = text.length - longestText
  return excess <= 0 ? { offset, text } : { offset: offset + excess, text: text.slice(excess) }
}

/** Sorts the transient entries between durable ones by number, from an index on. */
const sortSegments = (entries: Array<Entry>, from: number): void => {
  for (let start = from; start < entries.length;) {
    let end = start
    while (end < entries.length && entries[end]!.stream !== undefined) end += 1
    if (end - start > 1) {
      const sorted = entries.slice(start, end).sort((one, other) => one.seq - other.seq)
      sorted.forEach((entry, index) => {
        entries[start + index] = entry
      })
    }
    start = end + 1
  }
}
