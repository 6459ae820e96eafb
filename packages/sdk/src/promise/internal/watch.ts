/**
 * Watching a run, whoever drives it: this process tells its own updates at once, those of others are read from the store.
 */
import type { RunUpdate } from "../../agent/RunUpdate.ts"
import type { RunId } from "../../domain/Id.ts"
import type { RunEvent } from "../../domain/RunEvent.ts"
import type { RunHead } from "../../store/RunStorePort.ts"
import type { EventsOptions } from "./options.ts"
import type { Hub } from "./updates.ts"

/** Where what happens is told and kept. */
export interface Watched {
  readonly hub: Hub
  /** So many events of a run from a place on. */
  readonly read: (runId: RunId, from: number, limit: number) => Promise<ReadonlyArray<RunEvent>>
  readonly headOf: (runId: RunId) => Promise<RunHead>
  readonly isClosed: () => boolean
}

/** How often the store is looked at for what other processes did to a run that is watched. */
const pollMs = 250

/** Events that are read from the store at once. */
const pageSize = 64

/** Everything that happens in a run: what is stored first, then what goes on. */
export async function* watch(
  { headOf, hub, isClosed, read }: Watched,
  runId: RunId,
  given: EventsOptions = {}
): AsyncGenerator<RunUpdate> {
  const { from = 0, until = "hold" } = given
  const { buffer, stop } = hub.watch(runId)
  // As the store reads it: a whole number, from 0. What is no number the store refuses.
  let seen = Number.isFinite(from) ? Math.max(0, Math.trunc(from)) : from
  // This process tells of itself: the store need not be looked at for every piece of an answer.
  let lookAt = 0
  try {
    let last: RunEvent | undefined
    for (let stale = true; ;) {
      while (stale) {
        const page = await read(runId, seen, pageSize)
        stale = page.length === pageSize
        for (const event of page) {
          seen += 1
          last = event
          yield { _tag: "event", runId, revision: seen, event }
        }
      }
      const { isBehind, updates } = buffer.take()
      stale = isBehind
      for (const update of updates) {
        if (update._tag !== "event") {
          yield update
        } else if (update.revision === seen + 1) {
          seen = update.revision
          last = update.event
          yield update
        } else if (update.revision > seen) {
          stale = true
          break
        }
      }
      if (stale) continue
      if (isClosed()) return
      if (isOver(last) || (until !== "end" && last?._tag === "run.held")) return
      const now = performance.now()
      if (now >= lookAt) {
        lookAt = now + pollMs
        const head = await headOf(runId)
        stale = head.revision > seen
        if (stale) continue
        // What was asked for may lie behind the end, and then there is no event to tell it.
        if (head.status !== "running" && (head.status !== "held" || until !== "end")) return
      }
      await buffer.wait(lookAt - now)
    }
  } finally {
    stop()
  }
}

/** Whether the event is the last of its run, unless somebody goes on with it. */
export const isOver = (event: RunEvent | undefined): boolean =>
  event?._tag === "run.completed" || event?._tag === "run.cancelled" || event?._tag === "run.failed"
