/**
 * Finds the stored runs that a program could not resume, before it is deployed.
 *
 * @since 0.1.0
 */
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Stream from "effect/Stream"
import { answersTo } from "../agent/BoundAgent.ts"
import { letTurn } from "../agent/internal/eventLoop.ts"
import { requireOptions } from "../agent/internal/soundOptions.ts"
import type { Runtime } from "../agent/Runtime.ts"
import { sentence } from "../domain/Display.ts"
import type { RunId } from "../domain/Id.ts"
import { shapeOf, strings } from "../domain/internal/misfits.ts"
import type { OptionsInvalid } from "../domain/OptionsInvalid.ts"
import type { AgentNotFound, ToolUnavailable } from "../domain/RunError.ts"
import type { Status } from "../domain/RunState.ts"
import { unreadable } from "../store/internal/journal.ts"
import { RunStore } from "../store/RunStore.ts"
import type { RunStoreError } from "../store/RunStoreError.ts"
import type { DamagedRun, RunHead } from "../store/RunStorePort.ts"
import { checkStoredRun } from "./checkStoredRun.ts"
import { notAmong } from "./internal/requireAgent.ts"

/** A run that has not ended and that a program could not resume, or not in all its parts; also a run whose head cannot be read. */
export interface BlockedRun {
  /** The run's id, or a text in its place if the id cannot be read. */
  readonly runId: string
  /** Absent if it cannot be read. */
  readonly head?: RunHead
  /**
   * What prevents resuming the run, or a part of it: missing agents and tools, tools that refuse the arguments of an open call or the
   * context of the run, secrets that the source of the program does not have, and damage of the stored run. At least one.
   */
  readonly blocking: ReadonlyArray<AgentNotFound | ToolUnavailable | RunStoreError>
  /** The run and the reasons in words. */
  readonly text: string
}

/** Options of `checkAll`. */
export interface CheckAllOptions {
  /**
   * The names of agents whose runs another program resumes from the same store. Their runs are not checked. Default: none, so the runs of
   * every agent that this program does not have are listed.
   */
  readonly otherAgents?: ReadonlyArray<string>
}

const shape = shapeOf<CheckAllOptions>({ otherAgents: strings })

/**
 * Finds the runs of a store that have not ended and that a program with these runtimes could not resume, or not in all their parts.
 *
 * **When to use**
 *
 * Before a deploy, in the new version of the program and against the store of the running one. It writes nothing, takes no lease and starts
 * no work. Use `checkStoredRun` for one run, and for changes that do not prevent a resume.
 *
 * **Details**
 *
 * Held runs are checked and then running ones, each newest first, with their sub-agents and with the decisions that their journals do not
 * contain yet. A run that is being cancelled is left out, since it needs no definition to end. The stream reads a page of heads and one run
 * at a time, so a store of any size can be checked. Runs that start or end meanwhile may be missed or listed. Whether a program dispatches
 * with the conductor of a queued run is not known before it does, and is not checked.
 *
 * **Errors**
 *
 * - `OptionsInvalid` — an option's key or value is wrong; for a misspelt key, the error names the nearest one.
 * - `RunStoreError` — the store failed. Damage of a run is no failure: the run is listed with it.
 *
 * **Example** (Failing a deploy)
 *
 * ```ts run
 * import { Agent, checkAll, Runtime, runPromptStored, Tool } from "@fermata/sdk"
 * import { RunStore } from "@fermata/sdk/store"
 * import { ScriptedModel } from "@fermata/sdk/testing"
 * import { Effect, Layer, Stream } from "effect"
 *
 * const pay = Tool.make("pay", { handler: () => "paid" })
 * const program = Effect.gen(function* () {
 *   const running = yield* Runtime.make({ agent: Agent.make("clerk", { tools: [pay] }) })
 *   yield* runPromptStored(running, { prompt: "Pay it" })
 *   const next = yield* Runtime.make({ agent: Agent.make("clerk") })
 *   const blocked = yield* Stream.runCollect(checkAll([next]))
 *   return blocked.map(({ text }) => text)
 * })
 * const model = ScriptedModel.make([{ calls: [{ tool: "pay" }] }]).layer
 * const [text] = await Effect.runPromise(Effect.provide(program, Layer.merge(model, RunStore.layerMemory)))
 * if (text === undefined) throw new Error("The run can be resumed.")
 * ```
 *
 * @category running
 * @since 0.1.0
 */
export const checkAll = (
  runtimes: ReadonlyArray<Runtime<any>>,
  options: CheckAllOptions = {}
): Stream.Stream<BlockedRun, OptionsInvalid | RunStoreError, RunStore> =>
  Stream.unwrap(
    Effect.gen(function* () {
      const { otherAgents = [] } = yield* requireOptions("checkAll", options, shape)
      const store = yield* RunStore
      const check = (head: RunHead) =>
        otherAgents.includes(head.agent) || head.cancelReason !== undefined
          ? Effect.succeedNone
          : checkHead(runtimes, head)
      const listed = Stream.fromIterable(statuses).pipe(
        Stream.flatMap((status) => headsOf(store, status)),
        Stream.mapEffect(check)
      )
      const damaged = Stream.fromIterableEffect(store.damaged).pipe(
        Stream.mapEffect((entry) => checkDamaged(store, entry))
      )
      return Stream.concat(listed, damaged).pipe(
        Stream.filter(Option.isSome),
        Stream.map(({ value }) => value)
      )
    })
  )

const statuses: ReadonlyArray<Status> = ["held", "running"]

/** The number of heads in a page. */
const pageSize = 100

type Store = RunStore["Service"]

/** The heads of the runs with a status, newest first. */
const headsOf = (store: Store, status: Status): Stream.Stream<RunHead, RunStoreError> =>
  Stream.paginate(undefined as RunHead | undefined, (last) => {
    const after = last === undefined ? {} : { after: last.runId }
    return Effect.map(Effect.andThen(letTurn, store.list({ status, limit: pageSize, ...after })), (page) => {
      const next = page.length < pageSize ? Option.none() : Option.fromUndefinedOr(page.at(-1))
      return [page, next] as const
    })
  }).pipe(
    // If the last run of a page is removed, the list starts from the beginning: newer runs were checked.
    Stream.mapAccum(
      () => Infinity,
      (before, head) => (head.createdAt > before ? [before, []] : [head.createdAt, [head]])
    )
  )

const checkHead = (
  runtimes: ReadonlyArray<Runtime<any>>,
  head: RunHead
): Effect.Effect<Option.Option<BlockedRun>, RunStoreError, RunStore> => {
  const { agent, runId } = head
  const runtime = runtimes.find(({ bound }) => answersTo(bound.agent, agent))
  if (runtime === undefined) return Effect.succeed(blockedBy({ runId, head }, [notAmong(runtimes, agent)]))
  return Effect.matchEffect(checkStoredRun(runId, runtime), {
    onSuccess: ({ blocking }) => Effect.succeed(blockedBy({ runId, head }, blocking)),
    onFailure: (error) => {
      // The run was removed meanwhile.
      if (error._tag === "RunNotFound") return Effect.succeedNone
      return error.reason._tag === "StoreUnreadable"
        ? Effect.succeed(blockedBy({ runId, head }, [error]))
        : Effect.fail(error)
    }
  })
}

/** A run whose head cannot be read is in no list. */
const checkDamaged = (
  store: Store,
  { problem, runId }: DamagedRun
): Effect.Effect<Option.Option<BlockedRun>, RunStoreError> =>
  Effect.matchEffect(store.head(runId as RunId), {
    onSuccess: () => Effect.succeedNone,
    onFailure: (error) =>
      error._tag === "RunNotFound" || error.reason._tag === "StoreUnreadable"
        ? Effect.succeed(blockedBy({ runId }, [unreadable("checkAll", problem)]))
        : Effect.fail(error)
  })

const blockedBy = (
  run: Pick<BlockedRun, "runId" | "head">,
  blocking: BlockedRun["blocking"]
): Option.Option<BlockedRun> => {
  if (blocking.length === 0) return Option.none()
  const whose = run.head === undefined ? "" : sentence` of ${run.head.agent} (${run.head.status})`
  const why = blocking.map(({ message }) => message).join(" ")
  return Option.some({ ...run, blocking, text: `${sentence`The run ${run.runId}${whose}`}: ${why}` })
}
