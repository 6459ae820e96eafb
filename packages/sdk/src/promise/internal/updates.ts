/**
 * What happens in the runs of this process, for whoever watches: one bounded buffer per watcher that never holds the run up.
 */
import type { RunUpdate } from "../../agent/RunUpdate.ts"
import { Backlog } from "./Backlog.ts"

/** The updates that a watcher has not read yet. */
interface Buffer {
  readonly push: (update: RunUpdate) => void
  /** All that is there, taken out; see {@link Backlog.take}. */
  readonly take: Backlog["take"]
  /** Resolves when something is there, or after `ms`. */
  readonly wait: (ms: number) => Promise<void>
  readonly wake: () => void
}

const makeBuffer = (): Buffer => {
  const backlog = new Backlog()
  let waiting: (() => void) | undefined
  const wake = () => waiting?.()
  return {
    push: (update) => {
      backlog.push(update)
      wake()
    },
    take: () => backlog.take(),
    wait: (ms) =>
      backlog.isEmpty
        ? new Promise((resolve) => {
            const timer = setTimeout(() => waiting?.(), ms)
            waiting = () => {
              clearTimeout(timer)
              waiting = undefined
              resolve()
            }
          })
        : Promise.resolve(),
    wake
  }
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
