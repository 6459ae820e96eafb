/**
 * Stops a control plane: by the command `Shutdown`, or because its scope closes.
 */
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Scope from "effect/Scope"
import type { ActiveTask } from "./ActiveTask.ts"
import type { Core } from "./Core.ts"
import { cancelTask, deny, settleTask } from "./tasks.ts"

/** Denies what waits only in memory, parks what is stored and held, and cancels what runs. Returns when all tasks have ended. */
export const shutdown = Effect.fnUntraced(function* (core: Core, reason: string) {
  announce(core, reason)
  yield* Effect.forEach(core.activeTasks, (task) => endTask(core, task, reason), {
    concurrency: "unbounded",
    discard: true
  })
  yield* stop(core, reason)
})

/** Suspends stored tasks, so that another runtime can resume them, and cancels the others. */
export const stopWithScope = (core: Core): Effect.Effect<void> =>
  Effect.suspend(() => {
    if (core.status === "stopped") return Effect.void
    const reason = "The scope of the runtime has closed."
    announce(core, reason)
    return stop(core, reason)
  })

const announce = (core: Core, reason: string): void => {
  if (core.status !== "running") return
  core.status = "stopping"
  core.publish({ family: "Lifecycle", _tag: "lifecycle.stopping", reason })
  for (const session of core.sessions.values()) {
    const { runtime, sessionId } = session
    for (const { taskId } of session.queue.splice(0)) {
      const scope = { sessionId, taskId, turn: 0, agentPath: [runtime.agent.name], agentRunId: taskId }
      core.publish({ family: "Task", _tag: "task.cancelled", ...scope, reason })
    }
  }
}

const endTask = (core: Core, task: ActiveTask, reason: string): Effect.Effect<void> =>
  Effect.gen(function* () {
    const { handle } = task
    if (handle === undefined) return
    const isStored = core.options.store !== undefined
    if (isStored && handle.status.current() === "held") {
      task.publish({ family: "Task", _tag: "task.suspended", ...task.scope, reason }, core.options.now())
      return
    }
    if (!isStored) for (const request of handle.interruptions()) yield* deny(handle, request, reason)
    if (!task.isOver) yield* cancelTask(core, task, reason)
    yield* settleTask(core, task)
  })

const stop = Effect.fnUntraced(function* (core: Core, reason: string) {
  const tasks = core.activeTasks
  yield* Scope.close(core.options.tasks, Exit.void)
  for (const task of tasks) yield* settleTask(core, task)
  for (const task of core.activeTasks)
    task.publish({ family: "Task", _tag: "task.suspended", ...task.scope, reason }, core.options.now())
  core.status = "stopped"
  core.publish({ family: "Lifecycle", _tag: "lifecycle.stopped" })
  core.options.history.end()
})
