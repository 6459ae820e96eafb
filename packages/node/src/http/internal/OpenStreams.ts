/**
 * The open event streams of a server, by caller.
 */
import type { KnownCaller } from "./authenticate.ts"

interface OpenStream {
  readonly caller: KnownCaller
  readonly left: AbortController
}

/** How long the last events of a stopped runtime may take to reach their clients when the server closes. */
const lastEventsMs = 250

export class OpenStreams {
  private readonly max: number
  private readonly streams = new Set<OpenStream>()
  private onEmpty: (() => void) | undefined

  constructor(max: number) {
    this.max = max
  }

  /** Whether a caller may open another stream. */
  hasRoom(key: string, keyOf: (caller: KnownCaller) => string): boolean {
    let count = 0
    for (const { caller } of this.streams) if (keyOf(caller) === key) count += 1
    return count < this.max
  }

  /** Opens a stream. `signal` is aborted when the stream has to end; call `end` when it has ended. */
  open(caller: KnownCaller): { readonly left: AbortController; readonly end: () => void } {
    const stream = { caller, left: new AbortController() }
    this.streams.add(stream)
    const end = () => {
      this.streams.delete(stream)
      if (this.streams.size === 0) this.onEmpty?.()
    }
    return { left: stream.left, end }
  }

  /**
   * Ends all streams: those of runtimes that work at once, so that their clients connect again to the next server; those of stopped runtimes
   * after their last events.
   */
  async close(isStopped: (caller: KnownCaller) => Promise<boolean>): Promise<void> {
    const streams = [...this.streams]
    const stopped = await Promise.all(streams.map(({ caller }) => isStopped(caller).catch(() => false)))
    for (const [index, { left }] of streams.entries()) if (stopped[index] === false) left.abort()
    if (this.streams.size > 0)
      await new Promise<void>((resolve) => {
        this.onEmpty = resolve
        setTimeout(resolve, lastEventsMs)
      })
    for (const { left } of this.streams) left.abort()
  }
}
