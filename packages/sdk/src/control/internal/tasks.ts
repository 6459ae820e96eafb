/**
 * The life of tasks: start, end, cancellation, decisions.
 */
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Queue from "effect/Queue"
import * as Scope from "effect/Scope"
import type { Runtime } from "../../agent/Runtime.ts"
import { dispatchPrompt } from "../../dispatch/dispatchPrompt.ts"
import { attach, dispatchPromptStored } from "../../dispatch/dispatchPromptStored.ts"
import type { Decision, DecisionInput } from "../../domain/Decision.ts"
import { messageOf } from "../../domain/Display.ts"
import type { RequestId, RunId } from "../../domain/Id.ts"
import { withoutUndefined } from "../../domain/internal/untyped.ts"
import type { Interruption } from "../../domain/Interruption.ts"
import { type Rejection, RequestNotFound } from "../../domain/Rejection.ts"
import { interruptions, type RunState } from "../../domain/RunState.ts"
import { loadState } from "../../durable/loadState.ts"
import type { RunResult } from "../../run/RunResult.ts"
import { RunStore } from "../../store/RunStore.ts"
import { TaskNotActive } from "../CommandRejection.ts"
import { ActiveTask, type QueuedPrompt, type TaskError, type TaskHandle } from "./ActiveTask.ts"
import type { Core, OpenSession, Policy } from "./Core.ts"
import { failure, RunProjection } from "./projectRun.ts"

/** Starts a task in a session without an active one. Fails, and publishes nothing, if the run cannot start. */
export const startTask = Effect.fnUntraced(function* (
  core: Core,
  session: OpenSession,
  prompt: QueuedPrompt
): Effect.fn.Return<ActiveTask, TaskError> {
  const { tasks, store } = core.options
  const task = taskOf(core, session, prompt.taskId, false)
  session.task = task
  const policy = core.policyOf(session)
  const shared = {
    prompt: prompt.prompt,
    ...withoutUndefined({ context: prompt.context }),
    ...(policy === undefined ? {} : { "~policy": changeOf(policy) })
  }
  const { lastState, sessionId } = session
  const runtime = withRunId(session.runtime, prompt.taskId)
  const options = { onUpdate: task.onUpdate }
  const dispatching: Effect.Effect<unknown, TaskError, Scope.Scope> =
    store !== undefined
      ? Effect.provideService(
          dispatchPromptStored(runtime, { ...shared, sessionId, runId: prompt.taskId }, options),
          RunStore,
          store
        )
      : lastState === undefined
        ? dispatchPrompt(runtime, { ...shared, sessionId, runId: prompt.taskId }, options)
        : dispatchPrompt(runtime, { ...shared, state: lastState }, options)
  const exit = yield* Effect.exit(Scope.provide(dispatching, tasks))
  if (Exit.isFailure(exit)) {
    session.task = undefined
    return yield* Effect.failCause(exit.cause)
  }
  yield* adopt(core, session, task, exit.value as TaskHandle)
  return task
})

/** Attaches to the unfinished run of a stored session. */
export const resumeTask = Effect.fnUntraced(function* (
  core: Core,
  session: OpenSession,
  runId: RunId,
  store: RunStore["Service"]
) {
  const { now, tasks } = core.options
  const task = taskOf(core, session, runId, true)
  session.task = task
  const attaching = Effect.provideService(
    attach([session.runtime], runId, { onUpdate: task.onUpdate }),
    RunStore,
    store
  )
  const exit = yield* Effect.exit(Scope.provide(attaching, tasks))
  if (Exit.isFailure(exit)) {
    session.task = undefined
    return yield* Effect.failCause(exit.cause)
  }
  const handle = exit.value as TaskHandle
  const known = handle.state()
  const state = known ?? (yield* Effect.provideService(loadState(runId), RunStore, store))
  const projection = yield* projectTo(core, state, store)
  const scope = { ...task.scope, turn: state.usage.turns, agentPath: state.agentPath }
  const started = { agent: state.agent.name, prompt: "", resumed: true as const }
  task.publish({ family: "Task", _tag: "task.started", ...scope, ...started }, now())
  const open = interruptions(state)
  for (const request of open)
    task.publish({ family: "Tool", _tag: "tool.approvalRequired", ...scope, request }, now())
  if (state.status === "held") {
    const requests = open.map(({ requestId }) => requestId)
    task.publish({ family: "Task", _tag: "task.waitingApproval", ...scope, requests }, now())
  }
  task.resumeFrom(projection, state)
  yield* adopt(core, session, task, handle)
  const policy = core.policyOf(session)
  if (policy !== undefined && !isSame(policy, state)) yield* Effect.ignore(recordPolicy(task, policy))
  return task
})

/**
 * The projection of a run at a state. It has read the journal up to there, because the times of a turn are not in the state, and subscribers
 * that read the journal again get the same events.
 */
export const projectTo = Effect.fnUntraced(function* (
  core: Core,
  state: RunState,
  store: RunStore["Service"]
) {
  const projection = new RunProjection(core.projection)
  let revision = 0
  while (revision < state.revision) {
    const limit = Math.min(pageSize, state.revision - revision)
    const read = store.events(state.runId, { from: revision, limit })
    // A task goes on without the times of its turn.
    const events = yield* Effect.orElseSucceed(read, () => [])
    if (events.length === 0) return new RunProjection(core.projection, state)
    for (const event of events) projection.project(event, (revision += 1))
  }
  return projection
})

const pageSize = 256

const isSame = ({ setting }: Policy, { policy }: RunState): boolean =>
  setting.mode === policy.mode && setting.until === policy.until

const taskOf = (core: Core, session: OpenSession, taskId: RunId, isResumed: boolean): ActiveTask => {
  const { history, now } = core.options
  const task: ActiveTask = new ActiveTask({
    taskId,
    sessionId: session.sessionId,
    agent: session.runtime.agent.name,
    history,
    projection: core.projection,
    now,
    isResumed,
    onLate: (request) => {
      core.options.fork(denyLate(task, request))
    }
  })
  return task
}

/** Keeps the handle, and sends `taskDone` to the actor when the run has ended. */
const adopt = (
  core: Core,
  session: OpenSession,
  task: ActiveTask,
  handle: TaskHandle
): Effect.Effect<void> => {
  task.handle = handle
  session.lastTaskId = task.taskId
  session.updatedAt = core.options.now()
  const done = handle.done as Effect.Effect<unknown, TaskError>
  const notify = Effect.asVoid(Queue.offer(core.options.mailbox, { _tag: "taskDone", task }))
  const watching = Effect.andThen(Effect.exit(done), notify)
  return Effect.asVoid(Effect.forkIn(watching, core.options.tasks))
}

/** Makes the runtime give the next run the id of the task. */
const withRunId = (runtime: Runtime, runId: RunId): Runtime =>
  Object.create(runtime, { ids: { value: { ...runtime.ids, runId: () => runId } } }) as Runtime

/** Settles an ended task: publishes its terminal event, if its run published none, and `session.saved`. */
export const settleTask = Effect.fnUntraced(function* (core: Core, task: ActiveTask) {
  if (task.isSettled || task.handle === undefined) return
  task.isSettled = true
  const exit = yield* Effect.exit(task.handle.done as Effect.Effect<RunResult, TaskError>)
  const { now, store } = core.options
  if (!task.isOver) endUnseen(task, exit, now())
  const session = core.sessions.get(task.sessionId)
  if (session === undefined || session.task !== task) return
  session.task = undefined
  session.updatedAt = now()
  if (Exit.isFailure(exit)) return
  const { state } = exit.value
  if (store === undefined) session.lastState = state
  session.title = state.title ?? session.title
  core.publish({
    family: "Session",
    _tag: "session.saved",
    sessionId: session.sessionId,
    stored: store !== undefined,
    taskId: task.taskId,
    revision: state.revision
  })
})

/** Publishes the terminal event of a task whose run published none, because it was suspended or failed without a result. */
const endUnseen = (task: ActiveTask, exit: Exit.Exit<RunResult, TaskError>, at: number): void => {
  const { scope } = task
  if (Exit.isSuccess(exit)) {
    const result = exit.value
    if (result.status === "completed") {
      const { text, usage } = result
      return task.publish({ family: "Task", _tag: "task.completed", ...scope, text, usage }, at)
    }
    if (result.status === "cancelled")
      return task.publish({ family: "Task", _tag: "task.cancelled", ...scope, reason: result.reason }, at)
    if (result.status === "error") return failTask(task, result.error, at)
  }
  const error: unknown = Exit.isFailure(exit) ? Cause.squash(exit.cause) : undefined
  const isLeft =
    Exit.isSuccess(exit) || Cause.hasInterruptsOnly(exit.cause) || tagOf(error) === "RunSuspended"
  if (!isLeft) return failTask(task, error, at)
  const reason = error === undefined || Cause.isCause(error) ? "The runtime has stopped." : messageOf(error)
  task.publish({ family: "Task", _tag: "task.suspended", ...scope, reason }, at)
}

/** Publishes that a task has failed. */
const failTask = (task: ActiveTask, error: unknown, at: number): void => {
  const problem = { code: tagOf(error), message: messageOf(error) }
  task.publish(failure(problem.code, problem.message, task), at)
  task.publish({ family: "Task", _tag: "task.failed", ...task.scope, error: problem }, at)
}

/** The tag of an error; `Unknown` for any other value. */
export const tagOf = (error: unknown): string =>
  typeof error === "object" && error !== null && "_tag" in error && typeof error._tag === "string"
    ? error._tag
    : "Unknown"

/** Starts the queued prompts of a session, until one has started. */
export const startQueued = Effect.fnUntraced(function* (core: Core, session: OpenSession) {
  while (session.task === undefined && !session.isCompacting && core.status === "running") {
    const prompt = session.queue.shift()
    if (prompt === undefined) return
    const exit = yield* Effect.exit(startTask(core, session, prompt))
    if (Exit.isSuccess(exit)) return
    // The prompt was announced as queued, so its failure is published.
    failTask(taskOf(core, session, prompt.taskId, false), Cause.squash(exit.cause), core.options.now())
  }
})

/** Begins to cancel a task. Its terminal event follows. */
export const cancelTask = (core: Core, task: ActiveTask, reason: string): Effect.Effect<void> =>
  Effect.suspend(() => {
    const { now, tasks } = core.options
    const { handle } = task
    if (task.status !== "cancelling")
      task.publish({ family: "Task", _tag: "task.cancelling", ...task.scope, reason }, now())
    if (handle === undefined) return Effect.void
    // A store that cannot be reached makes `cancel` fail; the handle goes on with the cancellation.
    const cancelling = Effect.ignore(handle.cancel(reason) as Effect.Effect<unknown, TaskError>)
    return Effect.asVoid(Effect.forkIn(cancelling, tasks))
  })

/** The active task with this id. */
export const activeTask = (core: Core, taskId: string): ActiveTask | TaskNotActive => {
  const tasks = core.activeTasks
  return (
    tasks.find((task) => task.taskId === taskId) ??
    new TaskNotActive({ taskId, active: tasks.map((task) => task.taskId) })
  )
}

/** Decides a request of an active task. */
export const decide = (
  core: Core,
  decision: DecisionInput
): Effect.Effect<Decision, Rejection | TaskError> => {
  const requestId = decision.requestId as RequestId
  const isOf = ({ taskId }: ActiveTask) => requestId.startsWith(`${taskId}.`)
  const task = core.activeTasks.find(isOf)
  if (task?.handle === undefined) return Effect.fail(new RequestNotFound({ requestId }))
  return task.handle.decide(decision) as Effect.Effect<Decision, Rejection | TaskError>
}

/** Records a change of the policy in the run of a task. */
export const recordPolicy = (
  task: ActiveTask,
  policy: Policy
): Effect.Effect<void, TaskError | Rejection | { readonly _tag: string }> =>
  Effect.suspend(() =>
    task.handle === undefined
      ? Effect.void
      : (task.handle.record((at) => ({ _tag: "policy.changed", at, ...changeOf(policy) })) as Effect.Effect<
          void,
          TaskError
        >)
  )

const changeOf = ({ author, setting: { mode, until } }: Policy) => ({
  mode,
  ...withoutUndefined({ until }),
  ...author
})

/** Denies a request that arrived without an active task, or fails its call. */
const denyLate = (task: ActiveTask, request: Interruption): Effect.Effect<void> =>
  Effect.suspend(() => {
    const { handle } = task
    return handle === undefined
      ? Effect.void
      : deny(handle, request, "No task is active that could wait for it.")
  })

/** Denies a request, so that its run stops. Requests that cannot be denied are left to the cancellation of the run. */
export const deny = (
  handle: TaskHandle,
  { _tag, requestId }: Interruption,
  message: string
): Effect.Effect<void> => {
  if (_tag !== "approval" && _tag !== "question") return Effect.void
  const by = { id: "control plane", kind: "service" } as const
  return Effect.ignore(
    handle.decide({ _tag: "deny", requestId, by, message, then: "stop" }) as Effect.Effect<unknown, unknown>
  )
}
