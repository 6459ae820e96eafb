/**
 * Reads how a stored run has ended or stands, without driving it.
 *
 * @since 0.1.0
 */
import * as Effect from "effect/Effect"
import type * as Agent from "../agent/Agent.ts"
import { answersTo, holderOf } from "../agent/BoundAgent.ts"
import type { BoundAgent } from "../agent/Entry.ts"
import { definitionInLine, type Equipment, type Obstacle } from "../agent/internal/definitions.ts"
import { requireOptions } from "../agent/internal/soundOptions.ts"
import type { Runtime } from "../agent/Runtime.ts"
import { isWithin, type RunId } from "../domain/Id.ts"
import { list, shapeOf } from "../domain/internal/misfits.ts"
import { childState } from "../domain/internal/subAgents.ts"
import type { Interruption } from "../domain/Interruption.ts"
import { next } from "../domain/next.ts"
import type { OptionsInvalid } from "../domain/OptionsInvalid.ts"
import type { AgentNotFound } from "../domain/RunError.ts"
import { answerable, isEnded, type RunState } from "../domain/RunState.ts"
import { withDecisions } from "../run/internal/mailEvents.ts"
import { obstaclesOf, resultOf } from "../run/internal/result.ts"
import type { Interrupted, RunResult } from "../run/RunResult.ts"
import { RunStore } from "../store/RunStore.ts"
import type { RunNotFound, RunStoreError } from "../store/RunStoreError.ts"
import type { StoredRun } from "../store/RunStorePort.ts"
import { loadRun } from "./internal/loadRun.ts"
import { notAmong, requireAgent, startedAs } from "./internal/requireAgent.ts"
import { findSubRun, type SubRun } from "./internal/subRun.ts"

/**
 * The run has not ended and can continue without a decision: a process drives it; the next worker, handle or caller will drive it; or it is
 * queued, and its conductor will drive it when there is a slot.
 */
export interface Running extends Pick<Interrupted, "runId" | "sessionId" | "state" | "usage"> {
  readonly status: "running"
  /** The open requests of the run and its sub-agents. There may be some while other sub-agents are still running. */
  readonly interruptions: ReadonlyArray<Interruption>
  /** The owner of the lease in force, and the earliest time at which the lease can end. Absent if no process owns the run. */
  readonly workedOnBy?: NonNullable<StoredRun["head"]["lease"]>
}

/** The result of a stored run that is held or has ended, or `running`. */
export type StoredResult<Output = unknown> = RunResult<Output> | Running

/** Options of {@link readResult}. */
export interface ReadResultOptions<Output = unknown> {
  /**
   * The program's runtimes, with whose definitions the output is decoded and missing definitions are found. Without the run's agent,
   * `output` is the stored JSON value. Default: none.
   */
  readonly runtimes?: ReadonlyArray<Runtime>
  /** The agent with which the run was started, which types the output. A run of another agent is refused with `AgentNotFound`. */
  readonly agent?: string | Agent.Agent<any, Output>
}

const readResultShape = shapeOf<ReadResultOptions>({ runtimes: list, agent: "anything" })

/**
 * Reads how a stored run, or a sub-agent's run by its own id, has ended or stands. It claims no lease and drives nothing.
 *
 * **Details**
 *
 * The result of a run that has ended is the one that `runPromptStored` returned. A held run is `interrupted`, with the requests that have
 * no decision yet; so is a run that no process drives and that needs a definition which `runtimes` lack. A run is `running` if a process
 * drives it, or if it can continue without a decision: it is orphaned, its requests are decided, its cancellation was requested, or it is
 * queued until its conductor has a slot for it. A sub-agent's run is also `interrupted` while its root is held, without requests if only
 * the root has some; if the root ended first, the sub-agent's run has the root's result.
 *
 * **Errors**
 *
 * - `OptionsInvalid` — an option is unknown or has a wrong value; for a misspelt key, the error names the nearest one.
 * - `RunNotFound` — check the id.
 * - `AgentNotFound` — an `agent` is given, and the run was started with another one, or none of `runtimes` has the run's agent.
 * - `RunStoreError` — the store failed, or the journal is damaged; see its `reason`.
 *
 * @category running
 * @since 0.1.0
 */
export const readResult: <Output = unknown>(
  runId: string,
  options?: ReadResultOptions<Output>
) => Effect.Effect<
  StoredResult<Output>,
  AgentNotFound | OptionsInvalid | RunNotFound | RunStoreError,
  RunStore
> = Effect.fn("fermata.readResult")(function* <Output>(
  id: string,
  given: ReadResultOptions<Output> = {}
): Effect.fn.Return<
  StoredResult<Output>,
  AgentNotFound | OptionsInvalid | RunNotFound | RunStoreError,
  RunStore
> {
  const runId = id as RunId
  const { agent, runtimes = [] } = yield* requireOptions("readResult", given, readResultShape)
  const store = yield* RunStore
  const sub = yield* findSubRun(store, runId)
  const loaded = sub === undefined ? yield* loadRun(store, runId) : { ...sub.stored, state: sub.root }
  const program = runtimes.find(({ bound }) => answersTo(bound.agent, loaded.head.agent))
  if (agent !== undefined) {
    yield* requireAgent(agent, sub === undefined ? loaded.head.agent : startedAs(sub.state))
    if (program === undefined) return yield* notAmong(runtimes, loaded.head.agent)
  }
  const run = { ...loaded, program }
  return yield* sub === undefined ? resultOfRoot<Output>(run) : resultOfSubRun<Output>(sub, run)
})

interface Loaded extends Pick<StoredRun, "decisions" | "head" | "messages"> {
  readonly state: RunState
  readonly program: Equipment | undefined
}

const resultOfRoot = Effect.fnUntraced(function* <Output>(
  run: Loaded
): Effect.fn.Return<StoredResult<Output>> {
  const { program, state } = run
  if (isEnded(state)) {
    return yield* ended<Output>(
      state,
      program === undefined ? undefined : holderOf(program.bound, state.agent)
    )
  }
  const { isHeld, ...waits } = standing(run)
  return isHeld ? yield* interrupted<Output>(state, waits) : running(run, state, waits)
})

const resultOfSubRun = Effect.fnUntraced(function* <Output>(
  sub: SubRun,
  run: Loaded
): Effect.fn.Return<StoredResult<Output>> {
  const { state } = sub
  if (isEnded(state)) return yield* ended<Output>(state, definitionOf(sub, run.program?.bound))
  if (isEnded(run.state)) {
    const { runId, sessionId, usage } = state
    return { ...(yield* ended<Output>(run.state, undefined)), runId, sessionId, state, usage }
  }
  const root = standing(run)
  const isCancelled = run.messages.some(
    ({ ends, to }) => ends === true && to !== undefined && isWithin(state.runId, to)
  )
  const open = isCancelled ? [] : root.open.filter(({ runId }) => isWithin(runId, state.runId))
  const obstacles = root.obstacles.filter(({ id }) => isWithin(id, state.runId))
  const isHeld = !isCancelled && (root.isHeld || (open.length > 0 && next(state)._tag === "Hold"))
  return isHeld
    ? yield* interrupted<Output>(state, { open, obstacles })
    : running(run, state, { open, obstacles })
})

interface Waits {
  /** The requests without a decision. */
  readonly open: ReadonlyArray<Interruption>
  readonly obstacles: ReadonlyArray<Obstacle>
}

/** What the root waits for, and whether it is held by it. A decision that no process has acted on counts. */
const standing = ({ decisions, head, program, state }: Loaded): Waits & { readonly isHeld: boolean } => {
  if (head.cancelReason !== undefined) return { open: [], obstacles: [], isHeld: false }
  const after = withDecisions(state, decisions)
  const open = answerable(after)
  const obstacles = program === undefined || head.lease !== undefined ? [] : obstaclesOf(program, after)
  return { open, obstacles, isHeld: obstacles.length > 0 || (state.status === "held" && open.length > 0) }
}

/** The result of a run that has ended. Without a definition, the output is the stored JSON value. */
const ended = <Output>(state: RunState, holder: BoundAgent | undefined): Effect.Effect<RunResult<Output>> =>
  Effect.map(resultOf<Output>(state, holder, []), (result) =>
    result.status === "completed" && holder === undefined
      ? { ...result, output: state.output as Output }
      : result
  )

const interrupted = <Output>(
  state: RunState,
  { obstacles, open }: Waits
): Effect.Effect<StoredResult<Output>> =>
  Effect.map(resultOf<Output>(state, undefined, obstacles), (result) =>
    result.status === "interrupted" ? { ...result, interruptions: open } : result
  )

const running = ({ head: { lease } }: Loaded, state: RunState, { open }: Waits): Running => ({
  status: "running",
  runId: state.runId,
  sessionId: state.sessionId,
  state,
  usage: state.usage,
  interruptions: open,
  ...(lease === undefined ? {} : { workedOnBy: lease })
})

/** The agent that has the conversation of a sub-agent's run, if the program has it. */
const definitionOf = ({ path, stored }: SubRun, root: BoundAgent | undefined): BoundAgent | undefined =>
  root === undefined
    ? undefined
    : definitionInLine(
        root,
        path.flatMap((_, index) => childState(stored.events, path.slice(0, index + 1)) ?? [])
      )
