/**
 * The state after a simulation: read from the database through the ordinary store, and checked.
 */
import { isDeepStrictEqual } from "node:util"
import { evolveAll, Id, Message, RunEvent, RunState } from "@fermata/sdk/domain"
import { type RunStore, SqlRunStore } from "@fermata/sdk/store"
import { RunChecker } from "@fermata/sdk/testing"
import * as Effect from "effect/Effect"
import * as SqlClient from "effect/sql/SqlClient"
import * as Stream from "effect/Stream"
import { collect, type Collected } from "../../packages/sdk/src/testing/internal/simulation/world.ts"
import { secretsIn } from "./canary.ts"
import * as tools from "./tools.ts"
import type { Database, Moment, World } from "./world.ts"

/** The violations, and the outcome of the runs. */
export interface Verdict {
  readonly violations: ReadonlyArray<string>
  /** The outcome in a form in which two executions can be compared. */
  readonly outcome: ReadonlyArray<string>
}

/** Whether the state that is read from checkpoints differs from the folded events. */
const isAstray = ({ events, state }: Collected): boolean =>
  !isDeepStrictEqual(unrevoked(state), unrevoked(evolveAll(undefined, events)))

/** Leaves revocations out: the store records those after the end of a run, its journal does not. */
const unrevoked = (state: RunState.RunState | undefined) => ({
  ...state,
  grants: state?.grants.map((grant) => ({ ...grant, revoked: undefined }))
})

/** Effects of calls that started under a grant after its revocation had been acknowledged. */
const afterRevocation = (
  world: World,
  journals: ReadonlyArray<RunChecker.Journal>
): ReadonlyArray<string> => {
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

/** Earlier versions recorded a revocation behind the end of a run. This version must not. */
const afterEnd = (journals: ReadonlyArray<RunChecker.Journal>): ReadonlyArray<string> =>
  journals.flatMap(({ events, runId, status }) => {
    const last = events.at(-1)?._tag
    return status === "running" || status === "held" || last === undefined || terminal.includes(last)
      ? []
      : [`terminal ${runId}: its last event is ${last} and it is ${status}`]
  })

/** Runs that completed although their cancellation had been acknowledged. */
const notCancelled = (world: World, journals: ReadonlyArray<RunChecker.Journal>): ReadonlyArray<string> =>
  journals.flatMap(({ runId, status }) =>
    world.cancelled.has(runId) && status === "completed"
      ? [`cancelled ${runId}: it is completed, and its cancellation had been acknowledged before`]
      : []
  )

/** Runs that are cancelled although neither their cancellation nor a denial that stops them was requested. */
const cancelledUnasked = (world: World, journals: ReadonlyArray<RunChecker.Journal>): ReadonlyArray<string> =>
  journals.flatMap(({ runId, status }) =>
    status !== "cancelled" || [...world.askedToEnd].some((asked) => Id.isRunWithin(asked, runId))
      ? []
      : [`cancelled ${runId}: neither a cancellation nor a denial that stops it was requested`]
  )

const stored = (database: Database) =>
  Effect.gen(function* () {
    const store = yield* Effect.provideServiceEffect(SqlRunStore.make(), SqlClient.SqlClient, database.open)
    return { ...(yield* collect(store)), contents: yield* contentsOf(store, database) }
  })

/** Contents that are missing or changed, and, after a sweep of all that no run refers to, rows that are left of others. */
const contentsOf = Effect.fnUntraced(function* (
  { blobs }: RunStore.RunStore["Service"],
  { unusedContents }: Database
) {
  const damaged = yield* Stream.runCollect(blobs!.damaged)
  const found = damaged.map(({ problem, sha256 }) => `contents: ${sha256} is ${problem}`)
  if ((yield* unusedContents) === 0) return found
  yield* blobs!.sweep({ storedBefore: Number.MAX_SAFE_INTEGER })
  const left = yield* unusedContents
  return left === 0 ? found : [...found, `contents: ${left} rows that no run refers to stay`]
})

/** Checks a world from outside. */
export const judge = (world: World): Effect.Effect<Verdict> =>
  Effect.gen(function* () {
    const collected = yield* Effect.forEach(world.databases, (database) => Effect.scoped(stored(database)))
    const runs = collected.flatMap(({ runs }) => runs)
    const journals = runs.map(({ journal }) => journal)
    const inbox = {
      open: collected.flatMap(({ inbox }) => inbox.open),
      undelivered: collected.flatMap(({ inbox }) => inbox.undelivered),
      messages: collected.flatMap(({ inbox }) => inbox.messages)
    }
    const { appended, decisions, ended, messages } = world.acknowledged
    const dumps = yield* Effect.forEach(world.databases, ({ dump }) => dump)
    // A run that was removed has no expectations.
    const isKept = ({ runId }: { readonly runId: Id.RunId }) =>
      !world.removed.has(runId) || journals.some((journal) => journal.runId === runId)
    const isOfKept = ({ idempotencyKey }: { readonly idempotencyKey: string }) =>
      isKept({ runId: idempotencyKey.split(".")[0] as Id.RunId })
    const violations = RunChecker.check({
      journals,
      inbox,
      effects: world.effects.filter(isOfKept),
      effectTools: [...tools.effectTools, ...tools.holdTools],
      reconciled: world.reconciled,
      acknowledged: {
        appended: appended.filter(isKept),
        decisions: decisions.filter(isKept),
        messages: messages.filter(isKept),
        ended: ended.filter(isKept)
      },
      secrets: secretsIn([JSON.stringify([journals, inbox]), ...dumps.flat()])
    }).map(({ detail, invariant, runId }) => `${invariant} ${runId ?? ""}: ${detail}`)
    violations.push(
      ...collected.flatMap(({ runs }) =>
        afterRevocation(
          world,
          runs.map(({ journal }) => journal)
        )
      ),
      ...afterStop(world),
      ...world.strays.map(
        ({ idempotencyKey, tool }) => `stray ${idempotencyKey}: another agent's ${tool} ran`
      ),
      ...collected.flatMap(({ contents }) => contents),
      ...afterEnd(journals),
      ...notCancelled(world, journals),
      ...cancelledUnasked(world, journals)
    )
    for (const { journal } of runs.filter(isAstray)) {
      violations.push(`checkpoint ${journal.runId}: its state differs from the folded events`)
    }
    for (const { damage } of world.databases) {
      const damaged = yield* damage
      if (damaged !== undefined) violations.push(`damaged: ${damaged}`)
    }
    const outcome = runs.map(({ events }) => summary(evolveAll(undefined, events)))
    return { violations, outcome: [...outcome.toSorted(), ...effectsOf(world)] }
  }).pipe(
    // The check of the store must report no damage either.
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

/** The effects as a person would count them: repetitions of an idempotent call count once. */
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
