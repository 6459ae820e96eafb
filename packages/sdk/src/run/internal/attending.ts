/**
 * Attends to the sub-agents in the background of a run while its loop performs a step: takes the mail, resumes the sub-agents that
 * decisions release, and in the root's run decides requests by expiry and by the approval callback.
 */
import * as Effect from "effect/Effect"
import { resumeBackground } from "../steps/subAgents.ts"
import { type AgentRun, awaitChange, isEnding, isThere } from "./AgentRun.ts"
import { decideUnattended, wakeAtExpiry } from "./decideUnattended.ts"
import type { DriveError } from "./Drive.ts"
import { takeMail, takeMailInTask } from "./takeMail.ts"

/** Performs a step, and attends to the sub-agents in the background until it has ended. */
export const attending = (
  run: AgentRun,
  step: Effect.Effect<void, DriveError>
): Effect.Effect<void, DriveError> => {
  const { tasks } = run.drive
  const name = `attending ${run.path.at(-1) ?? ""}`
  const beside = run.beside()
  return Effect.andThen(
    tasks.start(name, beside.token, attend(run, beside)),
    Effect.ensuring(step, tasks.stop([name], "The step has ended."))
  )
}

/** `beside` is `run` with the token that ends this. The sub-agents that it resumes go on afterwards. */
const attend = Effect.fnUntraced(function* (
  run: AgentRun,
  beside: AgentRun
): Effect.fn.Return<void, DriveError> {
  const { drive } = run
  const isRoot = run.parent === undefined
  while (!isEnding(beside) && isThere(run)) {
    beside.seen = drive.changes
    // Only the root ends sub-agents: ending one waits for its loop, which may be that of this run.
    if (isRoot && (drive.hasMail || drive.hasEnding)) yield* takeMail(drive)
    else if (drive.hasMail) yield* takeMailInTask(drive)
    if (isRoot) yield* decideUnattended(run)
    yield* resumeBackground(run)
    const unset = isRoot ? wakeAtExpiry(drive) : undefined
    yield* awaitChange(beside)
    unset?.()
  }
})
