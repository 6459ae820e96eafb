/**
 * Derives the operations of a run store from its core.
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Stream from "effect/Stream"
import type { RequestId, RunId, Timestamp } from "../../domain/Id.ts"
import { warnAt } from "../../domain/Interruption.ts"
import { graceTime } from "../BlobPort.ts"
import type { RunStoreError } from "../RunStoreError.ts"
import type {
  Derived,
  ListFilter,
  PendingRequest,
  RunHead,
  RunStoreCore,
  RunStorePort,
  SessionHead,
  StoredRun
} from "../RunStorePort.ts"
import { latestTime, pageSize, position } from "./bounds.ts"
import { isTakingUp } from "./journal.ts"
import { makeNotifier } from "./notifier.ts"

const largestPage = 1000

/** Adds the operations that a core does not have. Those that it has itself are kept. */
export const derived = (core: RunStoreCore): RunStorePort => {
  const notifier = makeNotifier()
  const notifying = <A, E>(operation: Effect.Effect<A, E>) => Effect.tap(operation, notifier.notify)

  /** All heads that a filter selects, newest first. */
  const listAll = Effect.fnUntraced(function* (
    filter: Omit<ListFilter, "limit" | "after">
  ): Effect.fn.Return<ReadonlyArray<RunHead>, RunStoreError> {
    const heads: Array<RunHead> = []
    let after: RunId | undefined
    for (;;) {
      const page = yield* core.list({
        ...filter,
        limit: largestPage,
        ...(after === undefined ? {} : { after })
      })
      heads.push(...page)
      after = page.at(-1)?.runId
      if (page.length < largestPage || after === undefined) return heads
    }
  })

  /** What a run's load says, without the error of a run that does not exist. */
  const loaded = <A>(
    runId: RunId,
    select: (stored: StoredRun) => ReadonlyArray<A>
  ): Effect.Effect<ReadonlyArray<A>, RunStoreError> =>
    Effect.matchEffect(core.load(runId), {
      onSuccess: (stored) => Effect.succeed(select(stored)),
      onFailure: (error) =>
        error._tag === "RunNotFound" ? Effect.succeed<ReadonlyArray<A>>([]) : Effect.fail(error)
    })

  const rest: Pick<RunStorePort, Derived> = {
    head: (runId) => Effect.map(core.load(runId), ({ head }) => head),
    events: (runId, options) =>
      Effect.map(core.load(runId), ({ events, head }) => {
        const own = events.slice(events.length - head.revision)
        const from = position(options?.from, 0)
        return own.slice(from, Math.min(own.length, from + position(options?.limit, own.length)))
      }),
    decisions: (runId) => loaded(runId, ({ decisions }) => decisions),
    messages: (runId) => loaded(runId, ({ messages }) => messages),
    latest: (sessionId) => Effect.map(listAll({ sessionId }), (heads) => lastOf(heads)),
    sessions: (filter = {}) =>
      Effect.map(listAll({}), (heads) => {
        // `heads` are ordered newest first, and so are the sessions by their last runs.
        const cursor = heads.findIndex(({ runId }) => runId === filter.after)
        const older = new Set(heads.slice(cursor + 1))
        return sessionsOf(heads)
          .filter(
            ({ last }) =>
              older.has(last) &&
              (filter.agent ?? last.agent) === last.agent &&
              (filter.status ?? last.status) === last.status
          )
          .slice(0, pageSize(filter.limit))
      }),
    damaged: Effect.succeed([]),
    nextDue: Effect.fnUntraced(function* ({ after = -latestTime, agents } = {}) {
      let due: Timestamp | undefined
      for (let cursor: RequestId | undefined; ;) {
        const page: ReadonlyArray<PendingRequest> = yield* core.pending({
          expiresBefore: latestTime,
          limit: largestPage,
          ...(cursor === undefined ? {} : { after: cursor })
        })
        for (const { agent, request } of page) {
          if (agents?.includes(agent) === false || request.onExpiry === "stay") continue
          // The inbox does not say whether the expiry was announced.
          for (const at of [warnAt(request), request.expiresAt])
            if (at !== undefined && at > after && at < (due ?? Infinity)) due = at
        }
        cursor = page.at(-1)?.request.requestId
        if (page.length < largestPage || cursor === undefined) return due
      }
    }),
    changes: notifier.notifications,
    prune: ({ endedBefore }) =>
      Effect.gen(function* () {
        let count = 0
        for (const { runId, status, updatedAt } of yield* listAll({})) {
          if (status === "running" || status === "held" || updatedAt >= endedBefore) continue
          const removed = Effect.as(core.remove(runId), 1)
          count += yield* Effect.catchTag(removed, ["RunNotFound", "RunBusy", "RunContinued"], () =>
            Effect.succeed(0)
          )
        }
        const now = yield* Clock.currentTimeMillis
        yield* core.blobs?.sweep({ storedBefore: now - graceTime }) ?? Effect.void
        return count
      })
  }
  const store: RunStorePort = { ...rest, ...core }
  return {
    ...store,
    append: (options) =>
      Effect.tap(store.append(options), ({ revoked }) =>
        revoked === undefined && isTakingUp(options.events, options.status) ? notifier.notify : Effect.void
      ),
    remove: (runId) => notifying(store.remove(runId)),
    park: (options) => notifying(store.park(options)),
    restore: (...given) => notifying(store.restore(...given)),
    release: (lease) => notifying(store.release(lease)),
    requestCancel: (runId, reason) => notifying(store.requestCancel(runId, reason)),
    decide: (input) => notifying(store.decide(input)),
    decideAll: (inputs) => notifying(store.decideAll(inputs)),
    send: (runId, message) => notifying(store.send(runId, message)),
    changes: core.changes === undefined ? rest.changes : Stream.merge(rest.changes, core.changes)
  }
}

/** The runs that no other run of their session follows, newest first. */
const lastsOf = (heads: ReadonlyArray<RunHead>): ReadonlyArray<RunHead> => {
  const sessionOf = new Map(heads.map(({ runId, sessionId }) => [runId, sessionId]))
  const followed = new Set(
    heads.flatMap(({ parent, sessionId }) =>
      parent !== undefined && sessionOf.get(parent.runId) === sessionId ? [parent.runId] : []
    )
  )
  return heads.filter(({ runId }) => !followed.has(runId))
}

const lastOf = (heads: ReadonlyArray<RunHead>): RunHead | undefined => lastsOf(heads)[0]

const sessionsOf = (heads: ReadonlyArray<RunHead>): ReadonlyArray<SessionHead> => {
  const began = new Map<string, RunHead["createdAt"]>()
  for (const { createdAt, sessionId } of heads) {
    began.set(sessionId, Math.min(createdAt, began.get(sessionId) ?? createdAt))
  }
  return lastsOf(heads).map((last) => ({
    sessionId: last.sessionId,
    last,
    createdAt: began.get(last.sessionId) ?? last.createdAt
  }))
}
