/**
 * The command `SessionCompact`: compacts the context of a session beside the actor, because a model writes the summary.
 */
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Queue from "effect/Queue"
import { messageOf } from "../../domain/Display.ts"
import type { RunId } from "../../domain/Id.ts"
import type { Attributed } from "../../domain/Principal.ts"
import { type Compacted, compactRun } from "../../durable/compactRun.ts"
import { loadState } from "../../durable/loadState.ts"
import { RunStore } from "../../store/RunStore.ts"
import { CompactionActive, CompactionUnavailable, TaskActive } from "../CommandRejection.ts"
import type { Core, OpenSession } from "./Core.ts"
import { Publisher } from "./Publisher.ts"
import type { Answer } from "./submission.ts"
import { projectTo, settleTask, tagOf } from "./tasks.ts"

/**
 * Begins to compact a session, and returns at once. The event `session.compacted` follows, or a warning if nothing was compacted. Fails with
 * `TaskActive`, `CompactionActive`, or `CompactionUnavailable` for a session without a stored history.
 */
export const compactSession = Effect.fnUntraced(function* (
  core: Core,
  session: OpenSession,
  { by }: Attributed
) {
  const { mailbox, store, tasks } = core.options
  const { sessionId, task } = session
  if (task?.isOver === true) yield* settleTask(core, task)
  if (session.task !== undefined)
    return yield* new TaskActive({ command: "SessionCompact", sessionId, taskId: session.task.taskId })
  if (session.isCompacting) return yield* new CompactionActive({ command: "SessionCompact", sessionId })
  const { lastTaskId: taskId } = session
  if (store === undefined)
    return yield* new CompactionUnavailable({
      sessionId,
      reason: "this runtime has no store, and compacts the context of a task when it is nearly full"
    })
  if (taskId === undefined)
    return yield* new CompactionUnavailable({ sessionId, reason: "it has no history yet" })
  session.isCompacting = true
  const compacting = Effect.provideService(compact(core, session, taskId, by), RunStore, store)
  const notify = Effect.asVoid(Queue.offer(mailbox, { _tag: "compactionDone", sessionId }))
  yield* Effect.forkIn(Effect.ensuring(compacting, notify), tasks)
  return { _tag: "SessionCompacting", sessionId, taskId } satisfies Answer
})

/** Fails with `CompactionActive` for a command on a session that is being compacted. */
export const requireNoCompaction = (
  session: OpenSession | undefined,
  command: string
): Effect.Effect<void, CompactionActive> =>
  session?.isCompacting === true
    ? Effect.fail(new CompactionActive({ command, sessionId: session.sessionId }))
    : Effect.void

const compact = Effect.fnUntraced(function* (core: Core, session: OpenSession, taskId: RunId, by: string) {
  const store = yield* RunStore
  const exit = yield* Effect.exit(
    Effect.gen(function* () {
      const projection = yield* projectTo(core, yield* loadState(taskId), store)
      const from = projection.state?.revision ?? 0
      const compacted = yield* compactRun(core.options.agents, taskId, { by })
      return { compacted, events: yield* store.events(taskId, { from }), from, projection }
    })
  )
  // Before its event: a subscriber may answer that with a prompt.
  session.isCompacting = false
  if (Exit.isSuccess(exit)) {
    const { compacted, events, from, projection } = exit.value
    const { history, now } = core.options
    const { sessionId } = session
    const publisher = new Publisher({ history, projection, sessionId, now, onEvent: () => {} })
    for (const [index, event] of events.entries())
      publisher.publish({ _tag: "event", runId: taskId, revision: from + index + 1, event })
    publishResult(core, session, compacted)
  } else if (!Cause.hasInterruptsOnly(exit.cause)) {
    const error = Cause.squash(exit.cause)
    warn(core, session, tagOf(error), messageOf(error))
  }
})

/** Publishes the result, except for a summary: its event in the journal was published. */
const publishResult = (
  core: Core,
  session: OpenSession,
  { after, before, plan, summary }: Compacted
): void => {
  const { sessionId } = session
  if (plan === undefined)
    return warn(core, session, "NothingToCompact", "There is nothing that the context could leave out.")
  if (summary !== undefined) return
  const sizes = { tokensBefore: before.used, tokensAfter: after?.used ?? before.used }
  core.publish({ family: "Session", _tag: "session.compacted", sessionId, messages: 0, ...sizes })
}

const warn = (core: Core, { sessionId }: OpenSession, code: string, message: string): void =>
  core.publish({ family: "Warning", _tag: "warning.raised", code, message, sessionId })
