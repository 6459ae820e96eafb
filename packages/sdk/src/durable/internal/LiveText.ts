/**
 * Live text of a run for the processes that watch it: the deltas of its answers, and the progress and output of its tools, as texts for the
 * broadcast of a store. Nothing is kept or sent while no other process watches the run.
 *
 * Complete parts of a response are not sent, because an event contains them. The updates of a run have no secrets: see `ShownParts` and the
 * context of a tool.
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import type { RunUpdate } from "../../agent/RunUpdate.ts"
import type { RunId } from "../../domain/Id.ts"
import type { RunStore } from "../../store/RunStore.ts"
import type { RunPublisher } from "../../store/RunStorePort.ts"
import { isStreamName } from "../../tool/internal/outputChunk.ts"

type Delta = Extract<RunUpdate, { readonly _tag: "delta" }>

/** An update with a text that grows. */
type Live =
  | (Omit<Delta, "part"> & { readonly part: Extract<Delta["part"], { readonly delta: string }> })
  | Extract<RunUpdate, { readonly _tag: "progress" | "output" | "media" }>

/** The least time between two texts. */
const everyMs = 50

/** The most texts that are sent at a time. */
const mostTexts = 4

/** The most characters that wait to be sent. */
const mostCharacters = 64 * 1024

/** The most texts that wait to be sent before the parts of a call's streams lose their order. */
const mostEntries = 100

/** The most characters of one update, so that it fits into a text in any encoding. */
const mostOfUpdate = 1000

/** Makes an `onUpdate` that also sends the run's live text to the processes that watch it. */
export const broadcasting = (
  store: RunStore["Service"],
  runId: RunId,
  onUpdate: ((update: RunUpdate) => void) | undefined
): Effect.Effect<((update: RunUpdate) => void) | undefined> => {
  const { broadcast } = store
  if (broadcast === undefined) return Effect.succeed(onUpdate)
  return Effect.contextWith((context) =>
    Effect.map(Clock.Clock, (clock) => {
      const fork = Effect.runForkWith(context)
      const text = new LiveText({
        publisher: broadcast.publisher(runId),
        maxBytes: broadcast.maxTextBytes,
        now: () => clock.currentTimeMillisUnsafe(),
        later: (flush) => void fork(Effect.andThen(Effect.sleep(everyMs), Effect.sync(flush)))
      })
      return (update: RunUpdate) => {
        text.add(update)
        return onUpdate?.(update)
      }
    })
  )
}

interface Options {
  readonly publisher: RunPublisher
  readonly maxBytes: number
  readonly now: () => number
  readonly later: (flush: () => void) => void
}

/** An update, and its text until it is sent. */
interface Growing {
  readonly update: Live
  readonly text: string
}

/** The live text of one run. */
class LiveText {
  private readonly options: Options
  private readonly growing = new Map<string, Growing>()
  private size = 0
  /** The number of texts that another stream of their call has ended. */
  private closed = 0
  /** The number of events that were published. */
  private revision = 0
  /** The characters that were not sent, and not reported yet. */
  private omitted = 0
  private sentAt = -Infinity
  private isScheduled = false

  constructor(options: Options) {
    this.options = options
  }

  add(update: RunUpdate): void {
    if (update._tag === "event") {
      if (this.growing.size > 0) this.flush()
      this.revision = update.revision
      return
    }
    if (!this.options.publisher.isWatched()) return this.clear()
    if (!isLive(update)) return
    this.grow(update, textOf(update))
    if (this.isScheduled) return
    const { later, now } = this.options
    if (now() - this.sentAt >= everyMs) return this.flush()
    this.isScheduled = true
    later(() => {
      this.isScheduled = false
      this.flush()
    })
  }

  private grow(update: Live, text: string): void {
    const key = this.keyFor(update)
    const found = this.growing.get(key)
    const before = found === undefined || isWhole(update) ? "" : found.text
    this.size += before.length + text.length - (found?.text.length ?? 0)
    this.growing.set(key, { update, text: before + text })
    for (const [key, { text }] of this.growing) {
      if (this.size <= mostCharacters) return
      this.growing.delete(key)
      this.size -= text.length
      this.omitted += text.length
    }
  }

  /** The key of the text that an update continues. Output that changes its stream begins another text, so that both keep their order. */
  private keyFor(update: Live): string {
    const key = keyOf(update)
    if (update._tag !== "output") return key
    const last = this.growing.get(key)
    if (last === undefined || streamOf(last.update) === streamOf(update)) return key
    if (this.growing.size >= mostEntries) return `${key} ${streamOf(update)}`
    this.growing.delete(key)
    this.growing.set(`${key} ${this.growing.size} ${(this.closed += 1)}`, last)
    return key
  }

  private clear(): void {
    this.growing.clear()
    this.size = 0
    this.omitted = 0
  }

  /** Sends the texts that have grown. */
  private flush(): void {
    const { maxBytes, now, publisher } = this.options
    if (!publisher.isWatched()) return this.clear()
    const pieces = Array.from(this.growing.values()).flatMap(({ text, update }) => slices(update, text))
    this.growing.clear()
    this.size = 0
    const { batches, tooLarge } = packed(pieces, maxBytes - headBytes)
    const late = batches.splice(0, Math.max(0, batches.length - mostTexts))
    for (const update of [...tooLarge, ...late.flat()]) this.omitted += textOf(update).length
    const [first] = batches
    if (first === undefined) return
    if (this.omitted > 0) first[0] = { ...first[0]!, omitted: this.omitted }
    this.omitted = 0
    this.sentAt = now()
    for (const updates of batches) publisher.send(JSON.stringify({ revision: this.revision, updates }))
  }
}

/** The size of a text without its updates, in bytes, and of the number of omitted characters. */
const headBytes = 100

/** Groups updates into texts of at most `maxBytes`, and returns those that are too large for one. */
const packed = (updates: ReadonlyArray<Live>, maxBytes: number) => {
  const batches: Array<Array<Live>> = []
  const tooLarge: Array<Live> = []
  let left = 0
  for (const update of updates) {
    const bytes = encoder.encode(JSON.stringify(update)).length + 1
    if (bytes > maxBytes) {
      tooLarge.push(update)
      continue
    }
    if (bytes > left) {
      batches.push([])
      left = maxBytes
    }
    batches.at(-1)!.push(update)
    left -= bytes
  }
  return { batches, tooLarge }
}

const encoder = new TextEncoder()

/** Whether an update is not a part of a text. */
const isWhole = ({ _tag }: Live): boolean => _tag === "progress" || _tag === "media"

const streamOf = (update: Live): string | undefined => (update._tag === "output" ? update.stream : undefined)

/** The update with each part of a text. A progress message and a path stay whole. */
const slices = (update: Live, text: string): ReadonlyArray<Live> => {
  if (isWhole(update)) return [withText(update, text)]
  const found: Array<Live> = []
  for (let from = 0; from < text.length;) {
    const isSplit = /[\uD800-\uDBFF]/.test(text[from + mostOfUpdate - 1] ?? "")
    const to = from + mostOfUpdate - (isSplit ? 1 : 0)
    found.push(withText(update, text.slice(from, to)))
    from = to
  }
  return found
}

const isLive = (update: RunUpdate): update is Live =>
  update._tag === "progress" ||
  (update._tag === "media" && typeof update.mediaType === "string") ||
  (update._tag === "output" && (update.stream === undefined || isStreamName(update.stream))) ||
  (update._tag === "delta" && "delta" in update.part)

const keyOf = (update: Live): string => {
  if (update._tag === "media") return `media ${update.callId} ${update.path}`
  if (update._tag !== "delta") return `${update._tag} ${update.callId}`
  const { part } = update
  const place = part._tag === "tool-call-delta" ? `${part.index} ${part.name}` : ""
  return `${part._tag} ${update.agentRunId} ${update.turn} ${place}`
}

const textOf = (update: Live): string => {
  switch (update._tag) {
    case "delta":
      return update.part.delta
    case "output":
      return update.chunk
    case "progress":
      return update.message
    case "media":
      return update.path
  }
}

const withText = (update: Live, text: string): Live => {
  switch (update._tag) {
    case "delta":
      return { ...update, part: { ...update.part, delta: text } }
    case "output":
      return { ...update, chunk: text }
    case "progress":
      return { ...update, message: text }
    case "media":
      return update
  }
}

/** Reads a text of {@link broadcasting}; `undefined` if it is not one that this version knows. */
export const decodeLiveText = (
  runId: RunId,
  text: string
): { readonly revision: number; readonly updates: ReadonlyArray<RunUpdate> } | undefined => {
  try {
    const { revision, updates }: Loose = JSON.parse(text)
    if (typeof revision !== "number" || !Array.isArray(updates)) return undefined
    return { revision, updates: updates.filter(isSound).map((update) => ({ ...update, runId })) }
  } catch {
    return undefined
  }
}

interface Loose {
  readonly revision?: unknown
  readonly updates?: unknown
}

const isSound = (given: unknown): given is Live => {
  const update = given as Live | null
  if (typeof update !== "object" || update === null) return false
  if (update._tag === "delta" && typeof update.part !== "object") return false
  const isOurs = typeof update.agentRunId === "string" && Array.isArray(update.agentPath)
  return isOurs && isLive(update) && typeof textOf(update) === "string"
}
