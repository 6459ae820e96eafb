/**
 * The commands about sessions. With a store, a session is its runs, and its title is in the journal of its last run. Without one, it is in the
 * memory of the runtime.
 */
import * as Effect from "effect/Effect"
import { answersTo } from "../../agent/BoundAgent.ts"
import type { Runtime } from "../../agent/Runtime.ts"
import type { RunId, SessionId } from "../../domain/Id.ts"
import type { RunEvent } from "../../domain/RunEvent.ts"
import { appendOnce } from "../../durable/internal/appendOnce.ts"
import { loadState } from "../../durable/loadState.ts"
import { redactEvent } from "../../run/internal/redact.ts"
import { checkIds } from "../../run/internal/staging.ts"
import { RunStore } from "../../store/RunStore.ts"
import type { RunHead, SessionHead } from "../../store/RunStorePort.ts"
import type { SessionSummary } from "../Acknowledgement.ts"
import { AgentUnknown, SessionNotFound, TaskActive } from "../CommandRejection.ts"
import { requireNoCompaction } from "./compaction.ts"
import type { Core, OpenSession } from "./Core.ts"
import { isOfPlane } from "./planeContext.ts"
import type { Answer } from "./submission.ts"
import { resumeTask } from "./tasks.ts"

/** Opens a new session and makes it the active one. */
export const newSession = (core: Core, runtime: Runtime, title?: string): OpenSession => {
  saveActive(core)
  const at = core.options.now()
  const sessionId = runtime.ids.sessionId(at)
  const session = openSession(core, { sessionId, runtime, title, createdAt: at, updatedAt: at })
  core.publish({ family: "Session", _tag: "session.created", sessionId, agent: runtime.agent.name })
  if (title !== undefined) core.publish({ family: "Session", _tag: "session.renamed", sessionId, title })
  return session
}

const openSession = (
  core: Core,
  given: Pick<OpenSession, "sessionId" | "runtime" | "title" | "createdAt" | "updatedAt">
): OpenSession => {
  const session: OpenSession = {
    ...given,
    policy: undefined,
    task: undefined,
    queue: [],
    isCompacting: false,
    lastState: undefined,
    lastTaskId: undefined
  }
  core.sessions.set(given.sessionId, session)
  core.active = given.sessionId
  return session
}

/** Publishes that the active session is saved, as it is left. Its tasks go on. */
const saveActive = (core: Core): void => {
  const session = core.activeSession
  if (session !== undefined && session.lastTaskId !== undefined) publishSaved(core, session)
}

const publishSaved = (core: Core, { lastState, lastTaskId: taskId, sessionId }: OpenSession): void => {
  const saved = {
    ...(taskId === undefined ? {} : { taskId }),
    ...(lastState === undefined ? {} : { revision: lastState.revision })
  }
  const stored = core.options.store !== undefined
  core.publish({ family: "Session", _tag: "session.saved", sessionId, stored, ...saved })
}

/** The session of a command: the one it names, or the active one. */
export const sessionOf = (core: Core, sessionId: SessionId | undefined): OpenSession | SessionNotFound => {
  if (sessionId === undefined) return core.activeSession ?? new SessionNotFound({})
  return core.sessions.get(sessionId) ?? new SessionNotFound({ sessionId })
}

/** Opens an earlier session, with its unfinished task, and makes it the active one. */
export const resumeSession = Effect.fnUntraced(function* (core: Core, sessionId: SessionId) {
  yield* checkIds({ sessionId })
  const known = core.sessions.get(sessionId)
  const { context, store } = core.options
  const newest = store === undefined || known?.task !== undefined ? undefined : yield* store.latest(sessionId)
  const isOwn =
    store === undefined || newest === undefined || (yield* isOfPlane(context, store, newest.runId))
  const last = isOwn ? newest : undefined
  if (known === undefined && last === undefined) return yield* new SessionNotFound({ sessionId })
  const runtime =
    last === undefined
      ? undefined
      : core.options.agents.find(({ bound }) => answersTo(bound.agent, last.agent))
  if (last !== undefined && runtime === undefined)
    return yield* new AgentUnknown({ agent: last.agent, known: core.agentNames })
  const isLeaving = core.active !== sessionId
  const state =
    store === undefined || last === undefined
      ? undefined
      : yield* Effect.provideService(loadState(last.runId), RunStore, store)
  if (isLeaving) saveActive(core)
  const session =
    known ??
    openSession(core, {
      sessionId,
      runtime: runtime!,
      title: undefined,
      createdAt: last!.createdAt,
      updatedAt: last!.updatedAt
    })
  core.active = sessionId
  if (runtime !== undefined) session.runtime = runtime
  session.title = state?.title ?? session.title
  session.lastTaskId = last?.runId ?? session.lastTaskId
  core.publish({
    family: "Session",
    _tag: "session.resumed",
    sessionId,
    agent: session.runtime.agent.name,
    ...(session.title === undefined ? {} : { title: session.title }),
    ...(session.lastTaskId === undefined ? {} : { lastTaskId: session.lastTaskId })
  })
  publishSaved(core, session)
  if (store !== undefined && last !== undefined && (last.status === "held" || last.status === "running"))
    yield* resumeTask(core, session, last.runId, store)
  const task = session.task
  return {
    _tag: "SessionOpened",
    sessionId,
    ...(task === undefined || task.isOver ? {} : { taskId: task.taskId })
  } satisfies Answer
})

/** The session whose last task is the newest. */
export const lastSession = Effect.fnUntraced(function* (core: Core) {
  // Sessions without tasks come first.
  const sessions = yield* summaries(core, core.sessions.size + 1)
  const newest = sessions.find(({ lastTaskId }) => lastTaskId !== undefined) ?? sessions[0]
  return newest === undefined ? yield* new SessionNotFound({}) : newest.sessionId
})

/** Lists sessions, the one with the newest task first. */
export const summaries = Effect.fnUntraced(function* (core: Core, limit: number) {
  const { store } = core.options
  const open = [...core.sessions.values()].sort((one, other) => other.updatedAt - one.updatedAt)
  if (store === undefined) return open.map((session) => summaryOf(core, session)).slice(0, limit)
  const heads = yield* ownSessions(core, store, limit)
  const stored = yield* Effect.forEach(heads, ({ createdAt, last, sessionId }) =>
    Effect.map(titleOf(core, store, last), (title): SessionSummary => ({
      sessionId,
      ...(title === undefined ? {} : { title }),
      agent: last.agent,
      status: last.status,
      lastTaskId: last.runId,
      createdAt,
      updatedAt: last.updatedAt,
      active: core.active === sessionId
    }))
  )
  const ids = new Set(stored.map(({ sessionId }) => sessionId))
  // A session without tasks is not in the store yet.
  const fresh = open.filter(({ lastTaskId, sessionId }) => lastTaskId === undefined && !ids.has(sessionId))
  return [...fresh.map((session) => summaryOf(core, session)), ...stored].slice(0, limit)
})

/** The newest sessions of the plane. */
const ownSessions = Effect.fnUntraced(function* (core: Core, store: RunStore["Service"], limit: number) {
  const { context } = core.options
  if (context === undefined) return yield* store.sessions({ limit })
  const own: Array<SessionHead> = []
  let after: RunId | undefined
  while (own.length < limit) {
    const page: ReadonlyArray<SessionHead> = yield* store.sessions({
      limit: pageSize,
      ...(after === undefined ? {} : { after })
    })
    for (const head of page) {
      const isOwn = Effect.catchTag(isOfPlane(context, store, head.last.runId), "RunNotFound", () =>
        Effect.succeed(false)
      )
      if (own.length < limit && (yield* isOwn)) own.push(head)
    }
    if (page.length < pageSize) break
    after = page.at(-1)?.last.runId
  }
  return own
})

const titleOf = (core: Core, store: RunStore["Service"], { runId, sessionId }: RunHead) => {
  const open = core.sessions.get(sessionId)
  if (open !== undefined) return Effect.succeed(open.title)
  const reading = Effect.provideService(loadState(runId), RunStore, store)
  // A session whose last run cannot be read is listed without its title.
  return Effect.match(reading, { onSuccess: ({ title }) => title, onFailure: () => undefined })
}

const summaryOf = (core: Core, session: OpenSession): SessionSummary => {
  const { createdAt, lastState, lastTaskId, runtime, sessionId, task, title, updatedAt } = session
  const status = task?.state?.status ?? lastState?.status
  return {
    sessionId,
    ...(title === undefined ? {} : { title }),
    agent: runtime.agent.name,
    ...(status === undefined ? {} : { status }),
    ...(lastTaskId === undefined ? {} : { lastTaskId }),
    createdAt,
    updatedAt,
    active: core.active === sessionId
  }
}

/** Gives a session a title. With a store, the journal of its last run records it; of a session without tasks, that of its first one. */
export const renameSession = Effect.fnUntraced(function* (core: Core, session: OpenSession, title: string) {
  yield* requireNoCompaction(session, "SessionRename")
  const { sessionId, task } = session
  const { store } = core.options
  const renamed = (at: number): RunEvent => ({ _tag: "session.renamed", at, title })
  const handle = task === undefined || task.isOver ? undefined : task.handle
  if (handle !== undefined) yield* handle.record(renamed) as Effect.Effect<void, { readonly _tag: string }>
  else if (store !== undefined && session.lastTaskId !== undefined) {
    const { scrubber } = session.runtime
    const record = appendOnce(session.lastTaskId, (_, at) => [redactEvent(scrubber, renamed(at))])
    yield* Effect.provideService(record, RunStore, store)
  } else if (session.lastState !== undefined) session.lastState = { ...session.lastState, title }
  session.title = title
  // A run at work publishes the event when its journal has it.
  if (handle === undefined) core.publish({ family: "Session", _tag: "session.renamed", sessionId, title })
  return { _tag: "SessionRenamed", sessionId, title } satisfies Answer
})

/** The most runs that are read at a time. */
const pageSize = 1000

/** Deletes a session and its runs, the newest first. */
export const deleteSession = Effect.fnUntraced(function* (core: Core, sessionId: SessionId) {
  yield* checkIds({ sessionId })
  const session = core.sessions.get(sessionId)
  yield* requireNoCompaction(session, "SessionDelete")
  const task = session?.task
  if (task !== undefined && !task.isOver)
    return yield* new TaskActive({ command: "SessionDelete", sessionId, taskId: task.taskId })
  const { context, store } = core.options
  let found = session !== undefined
  if (store !== undefined) {
    while (true) {
      const runs: ReadonlyArray<RunHead> = yield* store.list({ sessionId, limit: pageSize })
      if (runs.length === 0) break
      for (const { runId } of runs)
        if (!(yield* isOfPlane(context, store, runId))) return yield* new SessionNotFound({ sessionId })
      const unfinished = runs.find(({ status }) => status === "held" || status === "running")
      if (unfinished !== undefined)
        return yield* new TaskActive({ command: "SessionDelete", sessionId, taskId: unfinished.runId })
      found = true
      for (const { runId } of runs) yield* store.remove(runId as RunId)
    }
  }
  if (!found) return yield* new SessionNotFound({ sessionId })
  core.sessions.delete(sessionId)
  if (core.active === sessionId) core.active = undefined
  core.publish({ family: "Session", _tag: "session.deleted", sessionId })
  return { _tag: "SessionDeleted", sessionId } satisfies Answer
})
