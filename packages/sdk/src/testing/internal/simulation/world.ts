/**
 * The data that outlives simulated processes: the clock, the effects of tools, and the acknowledgements and runs of the store.
 */
import * as Effect from "effect/Effect"
import type { RunId } from "../../../domain/Id.ts"
import type { RunEvent } from "../../../domain/RunEvent.ts"
import type { RunState } from "../../../domain/RunState.ts"
import { loadState } from "../../../durable/loadState.ts"
import { RunStore } from "../../../store/RunStore.ts"
import type { RunNotFound, RunStoreError } from "../../../store/RunStoreError.ts"
import type { RunHead } from "../../../store/RunStorePort.ts"
import type { Acknowledged, Effect as ToolEffect, Inbox, Journal, Reconciliation } from "../../Evidence.ts"
import type { SimulatedClock } from "./clock.ts"

type Store = RunStore["Service"]

/** The data that outlives every simulated process. */
export interface World {
  readonly clock: SimulatedClock
  /** The effects of tools, oldest first. */
  readonly effects: Array<ToolEffect>
  /** The results of `reconcile` for calls in doubt. */
  readonly reconciled: Array<Reconciliation>
  /** The operations that the store acknowledged. */
  readonly acknowledged: {
    readonly [K in keyof Acknowledged]-?: Array<NonNullable<Acknowledged[K]>[number]>
  }
}

export const make = (clock: SimulatedClock): World => ({
  clock,
  effects: [],
  reconciled: [],
  acknowledged: { appended: [], decisions: [], messages: [], ended: [] }
})

/** Wraps the store of a process so that the world records what it acknowledges. */
export const acknowledging = (store: Store, { acknowledged }: World): Store => {
  const { appended, decisions, messages } = acknowledged
  const append = ({ events, expected, lease: { runId } }: Parameters<Store["append" | "park"]>[0]) =>
    appended.push({ runId, revision: expected, events })
  return {
    ...store,
    create: (options) =>
      Effect.tap(store.create(options), () =>
        Effect.sync(() => appended.push({ runId: options.runId, revision: 0, events: options.events }))
      ),
    append: (options) =>
      Effect.tap(store.append(options), ({ revoked }) =>
        Effect.sync(() => revoked === undefined && append(options))
      ),
    park: (options) =>
      Effect.tap(store.park(options), ({ parked }) => Effect.sync(() => parked && append(options))),
    decide: (asked) =>
      Effect.tap(store.decide(asked), (decided) => Effect.sync(() => decisions.push({ ...decided, asked }))),
    decideAll: (asked) =>
      Effect.tap(store.decideAll(asked), (all) =>
        Effect.sync(() =>
          decisions.push(...all.map((decided, index) => ({ ...decided, asked: asked[index]! })))
        )
      ),
    send: (runId, message) =>
      Effect.tap(store.send(runId, message), (message) =>
        Effect.sync(() => messages.push({ runId, message }))
      )
  }
}

/** A stored run. */
export interface Collected {
  readonly journal: Journal
  /** The events from which its state is folded: those of the runs that it builds on, then its own. */
  readonly events: ReadonlyArray<RunEvent>
  /** Its state, as `loadState` returns it. */
  readonly state: RunState
}

/** Reads all runs of a store, oldest first, and its mail. */
export const collect: (
  store: Store
) => Effect.Effect<
  { readonly runs: ReadonlyArray<Collected>; readonly inbox: Required<Inbox> },
  RunStoreError | RunNotFound
> = Effect.fnUntraced(function* (store: Store) {
  const heads: Array<RunHead> = []
  for (let after: RunId | undefined; ; after = heads.at(-1)?.runId) {
    const page = yield* store.list({ limit: pageSize, ...(after === undefined ? {} : { after }) })
    heads.push(...page)
    if (page.length < pageSize) break
  }
  const found = yield* Effect.forEach(heads.toReversed(), ({ runId }) =>
    Effect.all({
      events: store.events(runId),
      stored: store.load(runId),
      state: Effect.provideService(loadState(runId), RunStore, store)
    })
  )
  const runs = found.map(({ events, state, stored }) => {
    const { parent, revision, runId, status } = stored.head
    const journal = { runId, events, revision, status, ...(parent === undefined ? {} : { parent }) }
    return { journal, events: stored.events, state }
  })
  const undelivered = found.flatMap(({ stored: { decisions, head } }) =>
    decisions.map((decision) => ({ runId: head.runId, decision }))
  )
  const messages = found.flatMap(({ stored: { head, messages } }) =>
    messages.map((message) => ({ runId: head.runId, message }))
  )
  return { runs, inbox: { open: yield* store.pending({ limit: pageSize }), undelivered, messages } }
})

const pageSize = 1000
