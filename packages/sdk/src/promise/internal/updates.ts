/**
 * What happens in the runs of this process, for whoever watches: one buffer per watcher that never holds the run up.
 *
 * A watcher that is slow loses no event; the pieces of text that it has not read yet grow together instead of piling up.
 */
import type { RunUpdate } from "../../agent/RunUpdate.ts"

/** The updates that a watcher has not read yet. */
interface Buffer {
  readonly push: (update: RunUpdate) => void
  /** All that is there, taken out. */
  readonly take: () => Array<RunUpdate>
  /** Resolves when something is there, or after `ms`. */
  readonly wait: (ms: number) => Promise<void>
  readonly wake: () => void
}

const makeBuffer = (): Buffer => {
  let updates: Array<RunUpdate> = []
  let waiting: (() => void) | undefined
  const wake = () => waiting?.()
  return {
    push: (update) => {
      const merged = mergeText(updates.at(-1), update)
      if (merged === undefined) updates.push(update)
      else updates[updates.length - 1] = merged
      wake()
    },
    take: () => {
      const taken = updates
      updates = []
      return taken
    },
    wait: (ms) =>
      updates.length > 0
        ? Promise.resolve()
        : new Promise((resolve) => {
            const timer = setTimeout(() => waiting?.(), ms)
            waiting = () => {
              clearTimeout(timer)
              waiting = undefined
              resolve()
            }
          }),
    wake
  }
}

const mergeText = (last: RunUpdate | undefined, update: RunUpdate): RunUpdate | undefined => {
  if (last?._tag !== "delta" || update._tag !== "delta") return undefined
  if (last.part._tag !== "text-delta" || update.part._tag !== "text-delta") return undefined
  if (last.turn !== update.turn || last.agentRunId !== update.agentRunId) return undefined
  return { ...update, part: { _tag: "text-delta", delta: last.part.delta + update.part.delta } }
}

/** Passes updates on to the watchers of their run. */
export interface Hub {
  readonly publish: (update: RunUpdate) => void
  readonly watch: (runId: string) => { readonly buffer: Buffer; readonly stop: () => void }
  /** Wakes everybody, so that they see that it is over. */
  readonly wakeAll: () => void
}

export const makeHub = (): Hub => {
  const watchers = new Map<string, Set<Buffer>>()
  return {
    publish: (update) => {
      const buffers = watchers.get(update.runId)
      if (buffers !== undefined) for (const buffer of buffers) buffer.push(update)
    },
    watch: (runId) => {
      const buffer = makeBuffer()
      const buffers = watchers.get(runId) ?? new Set()
      watchers.set(runId, buffers.add(buffer))
      return {
        buffer,
        stop: () => {
          buffers.delete(buffer)
          if (buffers.size === 0) watchers.delete(runId)
        }
      }
    },
    wakeAll: () => {
      for (const buffers of watchers.values()) for (const buffer of buffers) buffer.wake()
    }
  }
}
