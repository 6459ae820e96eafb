/**
 * The ready runs of the memory store.
 */
import type { Timestamp } from "../../../domain/Id.ts"
import type { ReadyFilter } from "../../RunStorePort.ts"
import { type Readiness, readiness } from "../inbox.ts"
import { waiting } from "../messages.ts"
import { type Found, type Places, reasons } from "../readyPages.ts"
import { ownerOf, type Run } from "./run.ts"

/** For each reason to be ready, the first `limit` runs after the places where the page before ended. */
export const readyLists = (
  runs: ReadonlyArray<Run>,
  { agents }: ReadyFilter,
  now: Timestamp,
  places: Places,
  limit: number
): ReadonlyArray<ReadonlyArray<Found>> => {
  const found = runs.flatMap((run): Found | [] => {
    const ready = (agents?.includes(run.agent) ?? true) ? readinessOf(run, now) : undefined
    return ready === undefined
      ? []
      : { runId: run.runId, agent: run.agent, list: ready.reason, reason: ready.reason, at: ready.at }
  })
  return reasons.map((reason) => {
    const [at = -Infinity, runId = ""] = places[reason] ?? []
    return found
      .filter((run) => run.list === reason && (run.at > at || (run.at === at && run.runId > runId)))
      .toSorted((a, b) => a.at - b.at || (a.runId < b.runId ? -1 : 1))
      .slice(0, limit)
  })
}

/** Why and since when a run is ready, or `undefined` if it is not. */
const readinessOf = (run: Run, now: Timestamp): Readiness | undefined => {
  if (ownerOf(run, now) !== undefined) return undefined
  if (run.status === "running") return { reason: "orphaned", at: run.createdAt }
  if (run.status !== "held") return undefined
  if (run.cancelReason !== undefined) return { reason: "cancelled", at: run.createdAt }
  const ready = readiness(run.inbox, now)
  const [message] = waiting(run.mail)
  return ready?.reason !== "decided" && message !== undefined ? { reason: "message", at: message.at } : ready
}
