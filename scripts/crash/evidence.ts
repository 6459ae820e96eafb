/**
 * What is left when a simulation is over: collected from the database through the ordinary store, and checked.
 */
import { isDeepStrictEqual } from "node:util"
import { evolveAll, Id, Message, RunEvent, RunState } from "@fermata/sdk/domain"
import { loadState } from "@fermata/sdk/durable"
import { RunStore, type RunStoreError, SqlRunStore } from "@fermata/sdk/store"
import { RunChecker } from "@fermata/sdk/testing"
import * as Effect from "effect/Effect"
import * as SqlClient from "effect/sql/SqlClient"
import { secretsIn } from "./canary.ts"
import * as tools from "./tools.ts"
import type { Database, Moment, World } from "./world.ts"

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
  /** Runs whose checkpoints say something else than their events. */
  readonly astray: ReadonlyArray<Id.RunId>
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
      Effect.all({
        events: store.events(runId),
        run: store.load(runId),
        state: Effect.provideService(loadState(runId), RunStore.RunStore, store)
      })
    )
    const astray = stored.flatMap(({ run, state }) =>
      isDeepStrictEqual(unrevoked(state), unrevoked(evolveAll(undefined, run.events))) ? [] : [run.head.runId]
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
    const messages = stored.flatMap(({ run: { head, messages } }) =>
      messages.map((message) => ({ runId: head.runId, message }))
    )
    const open = yield* store.pending({ limit: 1000 })
    const folded = stored.map(({ run }) => run.events)
    return { journals, inbox: { open, undelivered, messages }, folded, astray }
  }
)

/** The journals of runs that have ended do not say what was revoked since; the store does. */
const unrevoked = (state: RunState.RunState | undefined) => ({
  ...state,
  grants: state?.grants.map((grant) => ({ ...grant, revoked: undefined }))
})

/** Effects of calls that started under a grant after its revocation had been acknowledged. */
const afterRevocation = (world: World, { journals }: Collected): ReadonlyArray<string> => {
  const grants = new Map<string, Id.GrantId>()
  for (const { events } of journals) {
    for (const wrapped of events) {
      const { event } = RunEvent.unwrap(wrapped)
      if (event._tag !== "tool.classified") continue
      if (event.grantId === undefined) grants.delete(event.callId)
      else grants.set(event.callId, event.grantId)
    }
  }
  return world.effects.flatMap(({ idempotencyKey }, index) => {
    const grantId = grants.get(idempotencyKey)
    const since = grantId === undefined ? undefined : world.revoked.get(grantId)
    return since === undefined || isEarlier(since, idempotencyKey, index)
      ? []
      : [`revoked ${idempotencyKey}: it relied on ${grantId}, whose revocation had been acknowledged`]
  })
}

const isEarlier = ({ effects, started }: Moment, callId: string, index: number): boolean =>
  index < effects || started.has(callId)

/** Effects of calls that started after a denial that stops their run had been acknowledged. */
const afterStop = ({ effects, stopped }: World): ReadonlyArray<string> =>
  [...stopped].flatMap(([runId, since]) =>
    effects.flatMap(({ idempotencyKey }, index) =>
      !Id.isWithin(idempotencyKey, runId) || isEarlier(since, idempotencyKey, index)
        ? []
        : [`stopped ${idempotencyKey}: it began after a denial that stops ${runId} had been acknowledged`]
    )
  )

const terminal: ReadonlyArray<RunEvent.RunEvent["_tag"]> = ["run.completed", "run.cancelled", "run.failed"]

/** Earlier versions recorded a revocation behind the end of a run. Nothing does today. */
const afterEnd = (journals: ReadonlyArray<RunChecker.Journal>): ReadonlyArray<string> =>
  journals.flatMap(({ events, runId, status }) => {
    const last = events.at(-1)?._tag
    return status === "running" || status === "held" || last === undefined || terminal.includes(last)
      ? []
      : [`terminal ${runId}: its last event is ${last} and it is ${status}`]
  })

/** Runs whose cancellation was acknowledged, and that came to something else all the same. */
const notCancelled = (world: World, journals: ReadonlyArray<RunChecker.Journal>): ReadonlyArray<string> =>
  journals.flatMap(({ runId, status }) =>
    world.cancelled.has(runId) && status === "completed"
      ? [`cancelled ${runId}: it is completed, and its cancellation had been acknowledged before`]
      : []
  )

const stored = ({ open }: Database) =>
  Effect.flatMap(Effect.provideServiceEffect(SqlRunStore.make(), SqlClient.SqlClient, open), collect)

/** Looks at a world from outside. */
export const judge = (world: World): Effect.Effect<Verdict> =>
  Effect.gen(function* () {
    const collected = yield* Effect.forEach(world.databases, (database) => Effect.scoped(stored(database)))
    const journals = collected.flatMap(({ journals }) => journals)
    const inbox = {
      open: collected.flatMap(({ inbox }) => inbox.open),
      undelivered: collected.flatMap(({ inbox }) => inbox.undelivered),
      messages: collected.flatMap(({ inbox }) => inbox.messages ?? [])
    }
    const dumps = yield* Effect.forEach(world.databases, ({ dump }) => dump)
    // Of a run that was removed, and is gone, nobody expects anything.
    const isKept = ({ runId }: { readonly runId: Id.RunId }) =>
      !world.removed.has(runId) || journals.some((journal) => journal.runId === runId)
    const isOfKept = ({ idempotencyKey }: { readonly idempotencyKey: string }) =>
      isKept({ runId: idempotencyKey.split(".")[0] as Id.RunId })
    const violations = RunChecker.check({
      journals,
      inbox,
      effects: world.effects.filter(isOfKept),
      effectTools: tools.effectTools,
      reconciled: world.reconciled,
      acknowledged: {
        appended: world.appended.filter(isKept),
        decisions: world.decisions.filter(isKept),
        messages: world.messages.filter(isKept),
        ended: world.ended.filter(isKept)
      },
      secrets: secretsIn([JSON.stringify([journals, inbox]), ...dumps.flat()])
    }).map(({ detail, invariant, runId }) => `${invariant} ${runId ?? ""}: ${detail}`)
    violations.push(
      ...collected.flatMap((one) => afterRevocation(world, one)),
      ...afterStop(world),
      ...world.strays.map(
        ({ idempotencyKey, tool }) => `stray ${idempotencyKey}: another agent's ${tool} ran`
      ),
      ...afterEnd(journals),
      ...notCancelled(world, journals)
    )
    for (const runId of collected.flatMap(({ astray }) => astray)) {
      violations.push(`checkpoint ${runId}: what is read from it is not what the events come to`)
    }
    for (const { damage } of world.databases) {
      const damaged = yield* damage
      if (damaged !== undefined) violations.push(`damaged: ${damaged}`)
    }
    const outcome = collected.flatMap(({ folded }) =>
      folded.map((events) => summary(evolveAll(undefined, events)))
    )
    return { violations, outcome: [...outcome.toSorted(), ...effectsOf(world)] }
  }).pipe(
    // What the store itself finds to be damaged is found.
    Effect.catch((error) => Effect.succeed({ violations: [`unreadable: ${error.message}`], outcome: [] }))
  )

const summary = (state: RunState.RunState | undefined): string => {
  if (state === undefined) return "nothing"
  const results = RunState.messages(state).flatMap((message) =>
    message.role === "tool"
      ? [`${message.name} ${message.outcome === "supplied" ? "completed" : message.outcome}`]
      : message.role === "user" && message.origin !== "runtime"
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
