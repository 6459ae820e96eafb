/**
 * `restore` of the memory store: adds all runs of an archive, or none.
 */
import * as Result from "effect/Result"
import type { RunId, Timestamp } from "../../../domain/Id.ts"
import { defined } from "../../../domain/internal/defined.ts"
import type { SessionBusy } from "../../../domain/RunError.ts"
import { RunExists, type RunStoreError } from "../../RunStoreError.ts"
import type { RestoredRun } from "../../RunStorePort.ts"
import { blobsOfCopy } from "../blobs.ts"
import { type Copy, copyOf, isOriginOf, judgeCopy, type PresentRun } from "../copies.ts"
import { sliceBatches } from "../journal.ts"
import { waiting } from "../messages.ts"
import * as Blobs from "./blobs.ts"
import { begin, fill, type Run } from "./run.ts"

/** Adds copies of runs, oldest first. */
export const restoreInto = (
  runs: Map<RunId, Run>,
  blobs: Blobs.Blobs,
  restored: ReadonlyArray<RestoredRun>,
  now: Timestamp
): Result.Result<void, RunExists | SessionBusy | RunStoreError> =>
  Result.gen(function* () {
    const fresh: Array<Run> = []
    const replaced: Array<readonly [Run, Copy]> = []
    const stored: Array<Copy> = []
    for (const [index, given] of restored.entries()) {
      const { runId } = given
      const existing = runs.get(runId)
      if (existing === undefined) {
        const copy = copyOf(given)
        fresh.push(yield* begin(copy, [...runs.values(), ...fresh], now))
        stored.push(copy)
        continue
      }
      const verdict = judgeCopy(given, yield* presentIn(runs, existing), index === restored.length - 1)
      if (verdict._tag === "exists") {
        const { archive } = verdict
        return yield* Result.fail(new RunExists({ runId, status: existing.status, archive }))
      }
      if (verdict._tag !== "replace") continue
      replaced.push([existing, verdict.copy])
      stored.push(verdict.copy)
    }
    for (const copy of stored) yield* Blobs.requireAll(blobs, "restore", blobsOfCopy(copy))
    for (const run of fresh) runs.set(run.runId, run)
    for (const [run, copy] of replaced) {
      fill(run, copy, now)
      run.createdAt = Math.max(now, run.createdAt + 1)
    }
    for (const copy of stored) Blobs.refer(blobs, copy.runId, blobsOfCopy(copy))
  })

/** The stored runs that have the same origin as a run of the archive, at any revision. */
export const presentRuns = (
  runs: ReadonlyMap<RunId, Run>,
  restored: ReadonlyArray<RestoredRun>
): Result.Result<ReadonlyArray<Run>, RunStoreError> =>
  Result.gen(function* () {
    const present: Array<Run> = []
    for (const given of restored) {
      const run = runs.get(given.runId)
      if (run === undefined) continue
      const events = yield* sliceBatches(run.batches, { from: 0, to: 1 }, "restore")
      if (isOriginOf(given, { ...run, events })) present.push(run)
    }
    return present
  })

const presentIn = (runs: ReadonlyMap<RunId, Run>, run: Run): Result.Result<PresentRun, RunStoreError> =>
  Result.map(sliceBatches(run.batches, { from: 0, to: run.revision }, "restore"), (events) => {
    const children = Array.from(runs.values()).filter(({ parent }) => parent?.runId === run.runId)
    const { agent, cancelReason, parent, sessionId } = run
    return {
      agent,
      sessionId,
      events,
      isClaimed: run.epoch > 0,
      ...(children.length === 0
        ? {}
        : { builtOn: Math.max(...children.map(({ parent }) => parent?.revision ?? 0)) }),
      decisions: Array.from(run.inbox.values()).flatMap(({ decision, status }) =>
        status === "decided" && decision !== undefined ? [decision] : []
      ),
      messages: waiting(run.mail),
      ...defined({ parent, cancelReason })
    }
  })
