/**
 * What is left when a simulation is over: collected from the database through the ordinary store, and checked.
 */
import * as Effect from "effect/Effect"
import * as SqlClient from "effect/sql/SqlClient"
import { evolveAll, Message, type RunEvent, RunState } from "@fermata/sdk/domain"
import { type RunStore, type RunStoreError, SqlRunStore } from "@fermata/sdk/store"
import { RunChecker } from "@fermata/sdk/testing"
import * as tools from "./tools.ts"
import type { World } from "./world.ts"

/** What is wrong, and what the runs came to. */
export interface Verdict {
  readonly violations: ReadonlyArray<string>
  /** The outcome in a form that two executions can be compared by. */
  readonly outcome: ReadonlyArray<string>
}

/** Everything that a store has. */
export interface Collected {
  readonly journals: ReadonlyArray<RunChecker.Journal>
  readonly inbox: RunChecker.Inbox
  /** The runs' events, those of the runs that they build on first. */
  readonly folded: ReadonlyArray<ReadonlyArray<RunEvent.RunEvent>>
}

/** Reads everything that a store has. */
export const collect: (
  store: RunStore.RunStore["Service"]
) => Effect.Effect<Collected, RunStoreError.RunStoreError | RunStoreError.RunNotFound> = Effect.fnUntraced(
  function* (store: RunStore.RunStore["Service"]) {
    const heads: Array<RunStore.RunHead> = []
    for (let page = yield* store.list({ limit: 1000 }); page.length > 0;) {
      heads.push(...page)
      page = yield* store.list({ limit: 1000, after: page[page.length - 1]!.runId })
    }
    const stored = yield* Effect.forEach(heads, ({ runId }) =>
      Effect.all({ events: store.events(runId), run: store.load(runId) })
    )
    const journals = stored.map(({ events, run: { head } }) => ({
      runId: head.runId,
      events,
      revision: head.revision,
      status: head.status,
      ...(head.parent === undefined ? {} : { parent: head.parent })
    }))
    const undelivered = stored.flatMap(({ run: { decisions, head } }) =>
      decisions.map((decision) => ({ runId: head.runId, decision }))
    )
    const open = yield* store.pending({ limit: 1000 })
    return { journals, inbox: { open, undelivered }, folded: stored.map(({ run }) => run.events) }
  }
)

/** Looks at a world from outside. */
export const judge = (world: World): Effect.Effect<Verdict> =>
  Effect.gen(function* () {
    const store = yield* Effect.provideServiceEffect(SqlRunStore.make(), SqlClient.SqlClient, world.open)
    const { folded, inbox, journals } = yield* collect(store)
    const violations = RunChecker.check({
      journals,
      inbox,
      effects: world.effects,
      effectTools: tools.effectTools,
      reconciled: world.reconciled,
      acknowledged: { appended: world.appended, decisions: world.decisions, ended: world.ended }
    }).map(({ detail, invariant, runId }) => `${invariant} ${runId ?? ""}: ${detail}`)
    const damage = world.damage()
    const outcome = folded.map((events) => summary(evolveAll(undefined, events)))
    return {
      violations: damage === undefined ? violations : [...violations, `damaged: ${damage}`],
      outcome: [...outcome.toSorted(), ...effectsOf(world)]
    }
  }).pipe(
    Effect.scoped,
    // What the store itself finds to be damaged is found.
    Effect.catch((error) => Effect.succeed({ violations: [`unreadable: ${error.message}`], outcome: [] }))
  )

const summary = (state: RunState.RunState | undefined): string => {
  if (state === undefined) return "nothing"
  const results = RunState.messages(state).flatMap((message) =>
    message.role === "tool"
      ? [`${message.name} ${message.outcome === "supplied" ? "completed" : message.outcome}`]
      : message.role === "user"
        ? [`user ${Message.textOf(message.content)}`]
        : []
  )
  return `${state.runId} ${state.status} "${RunState.text(state)}" ${results.join(", ")}`
}

/** The effects that a person would count: one of a tool that may be repeated is one, however often it was repeated. */
const effectsOf = ({ effects }: World): ReadonlyArray<string> => {
  const seen = new Set<string>()
  const counted = effects.filter(({ idempotencyKey, tool }) => {
    if (tool !== "put") return true
    const first = !seen.has(idempotencyKey)
    seen.add(idempotencyKey)
    return first
  })
  return counted.map((effect) => `${effect.tool} ${JSON.stringify(effect.arguments)}`).toSorted()
}
