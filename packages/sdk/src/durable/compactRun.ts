/**
 * Compacts the context of a stored run or session by command, and measures the use of a context.
 *
 * @since 0.2.0
 */
import * as Arr from "effect/Array"
import * as Cause from "effect/Cause"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Schema from "effect/Schema"
import { answersTo, holderOf } from "../agent/BoundAgent.ts"
import * as Cancellation from "../agent/Cancellation.ts"
import type { BoundAgent } from "../agent/Entry.ts"
import { requireOptions } from "../agent/internal/soundOptions.ts"
import { attemptEffect } from "../agent/internal/userCode.ts"
import { describe } from "../agent/internal/userCode.ts"
import type { Runtime } from "../agent/Runtime.ts"
import type { CompactionPlan } from "../context/CompactionPlan.ts"
import type { ContextUsage } from "../context/ContextUsage.ts"
import type { CompactionDue } from "../context/PolicyDefinition.ts"
import type { Quality } from "../domain/Compaction.ts"
import { sentence } from "../domain/Display.ts"
import { evolve } from "../domain/evolve.ts"
import type { RunId, SessionId } from "../domain/Id.ts"
import { flag, nonEmpty, shapeOf } from "../domain/internal/misfits.ts"
import type { OptionsInvalid } from "../domain/OptionsInvalid.ts"
import { AgentNotFound } from "../domain/RunError.ts"
import type { RunEvent } from "../domain/RunEvent.ts"
import type { RunState } from "../domain/RunState.ts"
import { TaggedError } from "../domain/TaggedError.ts"
import { dueIn } from "../run/internal/compactionDue.ts"
import { contextInput } from "../run/internal/contextInput.ts"
import { redactEvent, redactText } from "../run/internal/redact.ts"
import { costOf, type SummaryCost, summarize } from "../run/internal/summarize.ts"
import { RunStore } from "../store/RunStore.ts"
import type { LeaseLost, RunBusy, RunConflict, RunNotFound, RunStoreError } from "../store/RunStoreError.ts"
import { ownLease, underLease } from "./internal/lease.ts"
import { loadRun } from "./internal/loadRun.ts"
import { checkReadable } from "./internal/storeJournal.ts"

/** The options of {@link compactRun}. */
export interface CompactOptions {
  /** Whether to return only what a compaction would do and cost. Nothing is then written, and no model is called. Default: `false`. */
  readonly dryRun?: boolean
  /** The name of the person or program that requests it, for the journal. Default: `unnamed`. */
  readonly by?: string
}

const shape = shapeOf<CompactOptions>({ dryRun: flag, by: nonEmpty })

/** The outcome of a compaction, or of its dry run. */
export interface Compacted {
  /** The run whose context it is: the session's last. */
  readonly runId: RunId
  readonly before: ContextUsage
  /** The plan that was made, or would be. Absent if there was nothing to leave out. */
  readonly plan?: CompactionPlan
  /** The highest cost of the summary, in estimated tokens. Present in a dry run whose plan needs a summary. */
  readonly cost?: SummaryCost
  /** How the context is used afterwards. Absent if nothing was done. */
  readonly after?: ContextUsage
  /** The summary. Absent if none was written. */
  readonly summary?: { readonly text: string; readonly quality: Quality }
}

/** No compaction was made: the context policy does not compact, the context cannot be made small enough, or no model wrote a summary. */
export class NotCompacted extends TaggedError<NotCompacted>()("NotCompacted", {
  runId: Schema.String,
  description: Schema.String
}) {
  override get message() {
    return sentence`The context of the run ${this.runId} was not compacted: ${this.description}. Nothing was changed.`
  }
}

/** The errors of {@link compactRun}. */
export type CompactError =
  | OptionsInvalid
  | RunNotFound
  | RunBusy
  | RunConflict
  | LeaseLost
  | RunStoreError
  | AgentNotFound
  | NotCompacted

/**
 * Compacts the context of a run, or of a session's last run. The run may be held or have ended: its next model call, or the session's next
 * run, receives a summary in place of the oldest messages. With `dryRun`, it returns the plan and its cost instead.
 *
 * **Details**
 *
 * A model writes the summary as in a driven run, and its usage counts in the run. The newest steps, open calls, the user's latest message
 * and pinned messages stay.
 *
 * **Errors**
 *
 * - `RunNotFound` — no run and no session has the id.
 * - `RunBusy` — a process drives the run, whose context policy may compact by itself: compact later.
 * - `AgentNotFound` — none of the runtimes has the agent of the run.
 * - `NotCompacted` — see its `description`.
 * - `RunConflict`, `LeaseLost`, `RunStoreError` — nothing was written; compact again.
 * - `OptionsInvalid` — an option is unknown or has a wrong value.
 *
 * @category running
 * @since 0.2.0
 */
export const compactRun: (
  runtimes: ReadonlyArray<Runtime>,
  id: string,
  options?: CompactOptions
) => Effect.Effect<Compacted, CompactError, RunStore> = Effect.fn("fermata.compactRun")(function* (
  runtimes: ReadonlyArray<Runtime>,
  id: string,
  options: CompactOptions = {}
) {
  const { by = "unnamed", dryRun = false } = yield* requireOptions("compactRun", options, shape)
  const store = yield* RunStore
  const runId = yield* runOf(store, id)
  const { agent } = yield* store.head(runId)
  const runtime = runtimes.find(({ bound }) => answersTo(bound.agent, agent))
  if (runtime === undefined)
    return yield* new AgentNotFound({ agent, known: runtimes.map(({ bound }) => bound.agent.name) })
  if (dryRun) {
    const { state } = yield* loadRun(store, runId)
    return yield* describePlan(yield* compactableOf(runtime, state), by)
  }
  const ttl = runtime.options.leaseTtl ?? "15 seconds"
  const owned = yield* ownLease(ttl, store.claim({ runId, owner: runtime.owner, ttl }))
  const token = Cancellation.make(yield* Cancellation.CancellationToken)
  return yield* underLease(
    store,
    owned,
    token,
    compacting(store, runtime, runId, owned, redactText(runtime.scrubber, by))
  )
})

type Store = RunStore["Service"]

/** The run of this id, or the last run of the session of this id. */
const runOf = (store: Store, id: string): Effect.Effect<RunId, RunNotFound | RunStoreError> =>
  Effect.catchTag(
    Effect.map(store.head(id as RunId), ({ runId }) => runId),
    "RunNotFound",
    (notFound) =>
      Effect.flatMap(store.latest(id as SessionId), (last) =>
        last === undefined ? Effect.fail(notFound) : Effect.succeed(last.runId)
      )
  )

/** A run, and the agent that has its conversation. */
interface Compactable {
  readonly runtime: Runtime
  readonly bound: BoundAgent
  readonly state: RunState
}

const compactableOf = (runtime: Runtime, state: RunState): Effect.Effect<Compactable, AgentNotFound> => {
  const bound = holderOf(runtime.bound, state.agent)
  return bound === undefined
    ? Effect.fail(new AgentNotFound({ agent: state.agent.name, known: [runtime.bound.agent.name] }))
    : Effect.succeed({ runtime, bound, state })
}

/** Instructions that a function computes are not computed here, and count as no tokens. */
const instructionsOf = ({ bound }: Compactable): string => {
  const { instructions } = bound.agent.options
  return typeof instructions === "string" ? instructions : ""
}

/** Asks the context policy: how the context is used, and what is due. */
const ask = (
  of: Compactable
): Effect.Effect<{ readonly usage: ContextUsage; readonly due?: CompactionDue }, NotCompacted> =>
  Effect.matchCauseEffect(
    attemptEffect(() => of.runtime.contextPolicy.prepare(contextInput(of, instructionsOf(of)))),
    {
      onSuccess: ({ usage }) =>
        usage === undefined
          ? Effect.fail(notCompacted(of, "the context policy does not compact"))
          : Effect.succeed({ usage }),
      onFailure: (cause) => {
        const due = dueIn(cause)
        return due === undefined
          ? Effect.fail(notCompacted(of, failureText(of, cause)))
          : Effect.succeed({ usage: due.usage, due })
      }
    }
  )

const notCompacted = ({ state }: Compactable, description: string) =>
  new NotCompacted({ runId: state.runId, description })

const failureText = ({ runtime }: Compactable, cause: Cause.Cause<unknown>): string => {
  const error = Cause.squash(cause) as { readonly _tag?: unknown; readonly reason?: unknown } | undefined
  if (error?._tag === "ContextTooLarge")
    return typeof error.reason === "string" ? error.reason : "it cannot be made small enough"
  return error?._tag === "WindowUnknown" ? "the window of its model is not known" : describe(runtime, error)
}

/** Measures the present use of a run's context. Fails if the context policy does not measure it. */
export const usageOf = (
  runtime: Runtime,
  state: RunState
): Effect.Effect<ContextUsage, AgentNotFound | NotCompacted> =>
  Effect.flatMap(compactableOf(runtime, state), (of) => Effect.map(ask(of), ({ usage }) => usage))

const asked = (by: string, at: number): RunEvent => ({
  _tag: "compaction.requested",
  at,
  by,
  reason: "asked"
})

const describePlan = Effect.fnUntraced(function* (
  of: Compactable,
  by: string
): Effect.fn.Return<Compacted, NotCompacted> {
  const { runId } = of.state
  const after = { ...of, state: evolve(of.state, asked(by, of.state.startedAt)) }
  const { due, usage: before } = yield* ask(after)
  if (due === undefined) return { runId, before }
  const { plan } = due
  if (plan._tag === "Prune") return { runId, before, plan }
  return { runId, before, plan, cost: costOf({ ...after, plan, usage: due.usage, options: due.summary }) }
})

/** Performs the compaction under the lease, and appends its events at once. */
const compacting = Effect.fnUntraced(function* (
  store: Store,
  runtime: Runtime,
  runId: RunId,
  { lease }: { readonly lease: Parameters<Store["append"]>[0]["lease"] },
  by: string
): Effect.fn.Return<Compacted, CompactError> {
  const clock = yield* Clock.Clock
  const now = () => clock.currentTimeMillisUnsafe()
  const { state: loaded } = yield* loadRun(store, runId)
  const events: Array<RunEvent> = []
  let of = yield* compactableOf(runtime, loaded)
  const emit = (given: RunEvent) => {
    const event = redactEvent(runtime.scrubber, given)
    events.push(event)
    of = { ...of, state: evolve(of.state, event) }
  }
  emit(asked(by, now()))
  const first = yield* ask(of)
  const { usage: before } = first
  let due = first.due
  if (due === undefined) return { runId, before }
  const { plan } = due
  while (due !== undefined) {
    if (due.plan._tag === "Prune") {
      const { before, cut, tokensAfter, tokensBefore } = due.plan
      emit({
        _tag: "context.pruned",
        at: now(),
        before,
        tokensBefore,
        tokensAfter,
        ...(cut === undefined ? {} : { cut })
      })
      emit({ _tag: "compaction.skipped", at: now(), reason: "no summary was needed" })
    } else {
      const failed = yield* summarize({
        ...of,
        plan: due.plan,
        usage: due.usage,
        options: due.summary,
        mayCallModel: true,
        complete: (request) => Effect.exit(attemptEffect(() => runtime.model.complete(request))),
        emit,
        now
      })
      if (failed !== undefined) {
        if (Cause.hasInterruptsOnly(failed.cause)) return yield* Effect.interrupt
        return yield* notCompacted(
          of,
          `no model wrote a summary: ${describe(runtime, Cause.squash(failed.cause))}`
        )
      }
    }
    due = of.state.compacting === undefined ? undefined : (yield* ask(of)).due
  }
  if (of.state.compacting !== undefined)
    emit({ _tag: "compaction.skipped", at: now(), reason: "there was nothing more to leave out" })
  if (Arr.isReadonlyArrayNonEmpty(events)) {
    yield* checkReadable(events)
    const appending = store.append({ lease, expected: loaded.revision, events, status: loaded.status })
    // These events never resume an ended run, so its session is never busy.
    yield* Effect.catchTag(appending, "SessionBusy", Effect.die)
  }
  const measured = yield* Effect.exit(ask(of))
  const { summary } = of.state.compaction ?? {}
  return {
    runId,
    before,
    plan,
    ...(Exit.isSuccess(measured) ? { after: measured.value.usage } : {}),
    ...(summary === undefined || plan._tag === "Prune"
      ? {}
      : { summary: { text: summary.text, quality: summary.quality } })
  }
})
