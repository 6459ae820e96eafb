/**
 * Takes one command: checks it, changes the plane, and returns the answer.
 */
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import { reconfigureRuntime } from "../../agent/reconfigureRuntime.ts"
import type { Runtime } from "../../agent/Runtime.ts"
import type { DecisionInput } from "../../domain/Decision.ts"
import type { RunId } from "../../domain/Id.ts"
import { checkPolicy } from "../../domain/internal/given.ts"
import { canonicalJson } from "../../domain/internal/json.ts"
import { sha256Of } from "../../domain/internal/sha256.ts"
import { withoutUndefined } from "../../domain/internal/untyped.ts"
import type { Attributed, Principal } from "../../domain/Principal.ts"
import { RunStore } from "../../store/RunStore.ts"
import { AgentUnknown, CommandInvalid, QueueFull, TaskActive } from "../CommandRejection.ts"
import type { RuntimeCommand } from "../RuntimeCommand.ts"
import type { RuntimeEvent } from "../RuntimeEvent.ts"
import type { ActiveTask } from "./ActiveTask.ts"
import { compactSession, requireNoCompaction } from "./compaction.ts"
import { configurationOf, type Core, type OpenSession, type Policy } from "./Core.ts"
import { contextOfTask } from "./planeContext.ts"
import {
  deleteSession,
  lastSession,
  newSession,
  renameSession,
  resumeSession,
  sessionOf,
  summaries
} from "./sessions.ts"
import { shutdown } from "./shutdown.ts"
import type { Answer } from "./submission.ts"
import { activeTask, cancelTask, decide, recordPolicy, settleTask, startTask } from "./tasks.ts"

type Command<Tag extends RuntimeCommand["_tag"]> = Extract<RuntimeCommand, { readonly _tag: Tag }>

/** The author of a command, in the forms that records need. */
export interface Author {
  readonly given: string | Principal
  readonly attributed: Attributed
}

/** The errors of a command; those without a type of their own become `CommandFailed`. */
export type CommandFault = { readonly _tag: string; readonly message: string }

export const handleCommand = (
  core: Core,
  command: RuntimeCommand & { readonly commandId: string },
  author: Author
): Effect.Effect<Answer, CommandFault> => {
  switch (command._tag) {
    case "SubmitPrompt":
      return submitPrompt(core, command, author)
    case "Approve":
      return approve(core, command, author)
    case "CancelTask":
      return cancel(core, command)
    case "SetApprovalPolicy":
      return setPolicy(core, command, author)
    case "SwitchModel":
    case "SwitchProfile":
      return reconfigure(core, command)
    case "SessionNew":
      return Effect.gen(function* () {
        const { sessionId } = newSession(core, yield* required(core.runtimeOf(command.agent)), command.title)
        return { _tag: "SessionOpened", sessionId }
      })
    case "SessionResume":
      return resumeSession(core, command.sessionId)
    case "SessionResumeLast":
      return Effect.flatMap(lastSession(core), (sessionId) => resumeSession(core, sessionId))
    case "SessionCompact":
      return Effect.flatMap(required(sessionOf(core, command.sessionId)), (session) =>
        compactSession(core, session, author.attributed)
      )
    case "SessionList":
      return Effect.map(summaries(core, Math.min(1000, command.limit ?? 100)), (sessions) => ({
        _tag: "SessionsListed",
        sessions
      }))
    case "SessionRename":
      return Effect.flatMap(required(sessionOf(core, command.sessionId)), (session) =>
        renameSession(core, session, command.title)
      ) as Effect.Effect<Answer, CommandFault>
    case "SessionDelete":
      return deleteSession(core, command.sessionId)
    case "Shutdown":
      return Effect.as(shutdown(core, command.reason ?? "The runtime was shut down."), {
        _tag: "Stopped"
      } as const)
  }
}

/** Fails with a value that is a rejection. */
const required = <T>(found: T): Effect.Effect<Exclude<T, Error>, Extract<T, Error>> =>
  found instanceof Error
    ? Effect.fail(found as Extract<T, Error>)
    : Effect.succeed(found as Exclude<T, Error>)

const submitPrompt = Effect.fnUntraced(function* (
  core: Core,
  command: Command<"SubmitPrompt"> & { readonly commandId: string },
  { attributed }: Author
): Effect.fn.Return<Answer, CommandFault> {
  // Before a session is opened for it.
  const earlier = yield* takenEarlier(core, command)
  if (earlier !== undefined) return earlier
  const session = yield* sessionFor(core, command)
  const { sessionId } = session
  const { task } = session
  // Its terminal event is published, but the actor has not settled it yet.
  if (task?.isOver === true) yield* settleTask(core, task)
  const taskId = taskIdOf(core, command) ?? session.runtime.ids.runId(core.options.now())
  const ofTask = contextOfTask(core.options.context, command.context)
  if (ofTask === undefined)
    return yield* new CommandInvalid({
      issues: `its "context" contradicts that of the runtime, which sets ${Object.keys(core.options.context ?? {}).join(", ")}`
    })
  const queued = { taskId, prompt: command.prompt, ...ofTask, author: attributed }
  const active = session.task
  if (active !== undefined || session.queue.length > 0 || session.isCompacting) {
    if (command.whenActive !== "queue") {
      yield* requireNoCompaction(session, command._tag)
      const busy = active?.taskId ?? session.queue[0]!.taskId
      return yield* new TaskActive({ command: command._tag, sessionId, taskId: busy })
    }
    const { maxQueued } = core.options
    if (session.queue.length >= maxQueued) return yield* new QueueFull({ sessionId, limit: maxQueued })
    const position = session.queue.push(queued)
    core.publish({
      family: "Task",
      _tag: "task.queued",
      sessionId,
      taskId,
      turn: 0,
      agentPath: [session.runtime.agent.name],
      agentRunId: taskId,
      position
    })
    return { _tag: "TaskQueued", sessionId, taskId, position }
  }
  yield* startTask(core, session, queued)
  if (session.title !== undefined && session.lastTaskId === taskId)
    yield* keepTitle(core, session, session.title)
  return { _tag: "TaskStarted", sessionId, taskId }
})

/** Records the title that the session was given before its first task. */
const keepTitle = (core: Core, session: OpenSession, title: string): Effect.Effect<void> =>
  Effect.suspend(() => {
    const state = session.task?.state
    return state === undefined ||
      state.title === title ||
      state.parent !== undefined ||
      core.options.store === undefined
      ? Effect.void
      : Effect.ignore(renameSession(core, session, title) as Effect.Effect<unknown, CommandFault>)
  })

/** The session of a prompt: the one that it names, the active one, or a new one. */
const sessionFor = Effect.fnUntraced(function* (core: Core, command: Command<"SubmitPrompt">) {
  const isNew = command.sessionId === undefined && core.active === undefined
  const session = isNew
    ? newSession(core, yield* required(core.runtimeOf(command.agent)))
    : yield* required(sessionOf(core, command.sessionId))
  if (command.agent === undefined) return session
  const runtime: Runtime = yield* required(core.runtimeOf(command.agent))
  if (runtime === session.runtime) return session
  if (session.lastTaskId !== undefined)
    return yield* new AgentUnknown({ agent: command.agent, known: [session.runtime.agent.name] })
  session.runtime = runtime
  return session
})

/**
 * The id of the task of a command that has an id: derived from it, so that a repetition after a restart finds the stored run. `undefined` for a
 * new one.
 */
const taskIdOf = (core: Core, { commandId }: { readonly commandId: string }): RunId | undefined =>
  core.options.store === undefined || commandId.startsWith(ownPrefix)
    ? undefined
    : (`task_${sha256Of(keyOf(core, commandId)).slice(0, 32)}` as RunId)

/** The answer to a prompt that an earlier runtime of the store has taken. */
const takenEarlier = Effect.fnUntraced(function* (
  core: Core,
  command: { readonly commandId: string }
): Effect.fn.Return<Answer | undefined, CommandFault> {
  const { store } = core.options
  const taskId = taskIdOf(core, command)
  if (store === undefined || taskId === undefined) return undefined
  const found = yield* Effect.match(store.head(taskId), {
    onSuccess: (head) => head,
    onFailure: (error) => (error._tag === "RunNotFound" ? undefined : error)
  })
  if (found === undefined) return undefined
  if (found instanceof Error) return yield* Effect.fail(found as CommandFault)
  return { _tag: "TaskStarted", sessionId: found.sessionId, taskId }
})

/** The text that identifies a command in the store: planes of different contexts share no ids of commands. */
const keyOf = ({ options: { context } }: Core, commandId: string): string =>
  context === undefined ? commandId : `${commandId}\n${canonicalJson(context)}`

/** The prefix of the ids of commands that came without one. */
export const ownPrefix = "cmd."

const approve = Effect.fnUntraced(function* (
  core: Core,
  { approvalId: requestId, commandId, decision, digest }: Command<"Approve"> & { readonly commandId: string },
  { given }: Author
): Effect.fn.Return<Answer, CommandFault> {
  const input = {
    ...decision,
    requestId,
    by: given,
    idempotencyKey: commandId,
    ...withoutUndefined({ digest })
  } as DecisionInput
  return { _tag: "Decided", decision: yield* decide(core, input) }
})

const cancel = Effect.fnUntraced(function* (
  core: Core,
  { reason = "It was cancelled.", taskId }: Command<"CancelTask">
): Effect.fn.Return<Answer, CommandFault> {
  const task: ActiveTask = yield* required(activeTask(core, taskId))
  yield* cancelTask(core, task, reason)
  return { _tag: "TaskCancelling", taskId: task.taskId }
})

const setPolicy = Effect.fnUntraced(function* (
  core: Core,
  { policy, sessionId }: Command<"SetApprovalPolicy">,
  { attributed }: Author
): Effect.fn.Return<Answer, CommandFault> {
  const checked = checkPolicy(policy)
  if (Result.isFailure(checked)) return yield* new CommandInvalid({ issues: checked.failure.issues })
  if (policy.mode === "until" && policy.until === undefined)
    return yield* new CommandInvalid({
      issues: 'the policy "until" needs the time "until", in milliseconds since 1970'
    })
  const setting: Policy = { setting: policy, author: attributed }
  const session = sessionId === undefined ? undefined : yield* required(sessionOf(core, sessionId))
  if (session !== undefined) session.policy = setting
  else {
    core.policy = setting
    for (const open of core.sessions.values()) open.policy = undefined
  }
  const ofSession = sessionId === undefined ? {} : { sessionId }
  const event: RuntimeEvent = {
    family: "Lifecycle",
    _tag: "lifecycle.policyChanged",
    policy,
    ...ofSession,
    by: attributed.by
  }
  core.publish(event)
  const tasks: Array<RunId> = []
  for (const task of core.activeTasks) {
    if (session !== undefined && task !== session.task) continue
    yield* recordPolicy(task, setting) as Effect.Effect<void, CommandFault>
    tasks.push(task.taskId)
  }
  return { _tag: "PolicySet", policy, tasks }
})

const reconfigure = Effect.fnUntraced(function* (
  core: Core,
  command: Command<"SwitchModel"> | Command<"SwitchProfile">
): Effect.fn.Return<Answer, CommandFault> {
  const runtime: Runtime = yield* required(core.runtimeOf(command.agent))
  const agent = runtime.agent.name
  for (const session of core.sessions.values()) {
    const { sessionId, task } = session
    if (session.runtime === runtime) yield* requireNoCompaction(session, command._tag)
    if (session.runtime === runtime && task !== undefined && !task.isOver)
      return yield* new TaskActive({ command: command._tag, sessionId, taskId: task.taskId })
    // The run has published its end and may not have left the runtime yet.
    if (session.runtime === runtime && task !== undefined) yield* settleTask(core, task)
  }
  const change = command._tag === "SwitchModel" ? { model: command.profile } : { profile: command.profile }
  yield* reconfigureRuntime(runtime, change)
  const configuration = configurationOf(runtime)
  core.publish({ family: "Model", _tag: "model.profileSwitched", agent, configuration })
  return { _tag: "Reconfigured", agent, configuration }
})

/** The store of the context, if there is one. */
export const storeOfContext = Effect.serviceOption(RunStore)
