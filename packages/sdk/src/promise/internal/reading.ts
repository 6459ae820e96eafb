/**
 * The methods of a Fermata that read runs and sessions without driving anything.
 */
import * as Effect from "effect/Effect"
import * as Stream from "effect/Stream"
import type { RunId, SessionId } from "../../domain/Id.ts"
import { type BlockedRun, checkAll, type CheckAllOptions } from "../../durable/checkAll.ts"
import { findSubRun, statusOfSubRun } from "../../durable/internal/subRun.ts"
import { type MessagesPage, readMessages } from "../../durable/readMessages.ts"
import { readResult, type StoredResult } from "../../durable/readResult.ts"
import { RunStore, type SessionFilter } from "../../store/RunStore.ts"
import type { RunStoreError } from "../../store/RunStoreError.ts"
import type { DamagedRun } from "../../store/RunStorePort.ts"
import type { RunHandle } from "../RunHandle.ts"
import type { Agents } from "./bindAgents.ts"
import type { FermataClosed } from "./FermataClosed.ts"
import { iterable } from "./iterable.ts"
import type { DamagedRunsOptions, OfAgent, PlainIds } from "./options.ts"
import { damagedRunsShape, filterShapes, ofAgentShape, requireKnown } from "./shapes.ts"

/** The parts of a Fermata that its readers of stored data need. */
export interface Read {
  readonly run: <A, E>(effect: Effect.Effect<A, E, RunStore>) => Promise<A>
  readonly agents: Agents
}

/** Makes the methods that read stored runs. */
export const makeReading = ({ agents, run }: Read) => ({
  result: async <Output>(
    given: string | RunHandle<Output>,
    options: OfAgent<Output> = {}
  ): Promise<StoredResult<Output>> => {
    requireKnown("result", options, ofAgentShape)
    return run(readResult<Output>(idOf(given), { ...agents.given(options), runtimes: agents.all }))
  },
  /** Reads the status and the number of events of a run, or of a sub-agent's run. */
  standing: (runId: RunId) =>
    run(
      RunStore.use((store) =>
        Effect.flatMap(findSubRun(store, runId), (found) =>
          found === undefined
            ? store.head(runId)
            : Effect.succeed({
                status: statusOfSubRun(found.root, found.state),
                revision: found.state.revision
              })
        )
      )
    ),
  damagedRuns: async (options: DamagedRunsOptions = {}): Promise<ReadonlyArray<DamagedRun>> => {
    requireKnown("damagedRuns", options, damagedRunsShape)
    const { journals = false } = options
    return run(
      RunStore.use((store) =>
        journals
          ? Effect.zipWith(store.damaged, unloadable(store), (listed, others) => [...listed, ...others])
          : store.damaged
      )
    )
  },
  checkAll: (options?: CheckAllOptions): AsyncIterable<BlockedRun> => {
    const opened = Effect.tryPromise({ try: () => run(RunStore), catch: (error) => error as FermataClosed })
    const checking = Effect.map(opened, (store) =>
      Stream.provideService(checkAll(agents.all, options), RunStore, store)
    )
    return iterable(Stream.unwrap(checking))
  },
  messages: (sessionId: string, page?: MessagesPage) => run(readMessages(sessionId as SessionId, page)),
  sessions: async (filter?: PlainIds<SessionFilter>) => {
    requireKnown("sessions", filter, filterShapes.sessions)
    return run(RunStore.use(({ sessions }) => sessions(filter as SessionFilter | undefined)))
  }
})

/** The runs with a sound head that cannot be loaded: a journal, a message or a run that they build on cannot be read. */
const unloadable = Effect.fnUntraced(function* (
  store: RunStore["Service"]
): Effect.fn.Return<ReadonlyArray<DamagedRun>, RunStoreError> {
  const found: Array<DamagedRun> = []
  let after: RunId | undefined
  while (found.length < mostFound) {
    const page = yield* store.list({ limit: pageSize, ...(after === undefined ? {} : { after }) })
    for (const { runId } of page) {
      const problem = yield* problemOf(store, runId)
      if (problem !== undefined) found.push({ runId, problem })
      // A database in this process (SQLite) blocks the event loop during a query.
      yield* Effect.yieldNow
    }
    if (page.length < pageSize) break
    after = page.at(-1)?.runId
  }
  return found.slice(0, mostFound)
})

const pageSize = 500
const mostFound = 1000

const problemOf = (
  store: RunStore["Service"],
  runId: RunId
): Effect.Effect<string | undefined, RunStoreError> =>
  Effect.catchTags(Effect.as(store.load(runId), undefined), {
    RunNotFound: () => Effect.succeed(undefined),
    RunStoreError: (error) =>
      error.reason._tag === "StoreUnreadable" ? Effect.succeed(error.reason.detail) : Effect.fail(error)
  })

/** The id of a run that is given by its id or its handle. The store refuses what is neither. */
const idOf = (given: string | Pick<RunHandle, "runId">): RunId =>
  (typeof given === "object" && given !== null ? given.runId : given) as RunId
