/**
 * Stores that are broken on purpose. A campaign that does not find one of them proves nothing.
 */
import type { Decision, Id, RunEvent } from "@fermata/sdk/domain"
import type { RunStore } from "@fermata/sdk/store"
import * as Effect from "effect/Effect"
import type { Store } from "./app.ts"
import { canary } from "./canary.ts"
import type { World } from "./world.ts"

/** A broken store. */
export interface Mutant {
  readonly name: string
  /** The scenario of the sweep, the seeds, or the pair of processes that must find it. */
  readonly scenario: string | undefined
  readonly pair?: string
  readonly mutate: (store: Store, world: World) => Store
}

type Append = Parameters<Store["append"]>[0]
type Events = Append["events"]
type Checkpoint = RunStore.NewCheckpoint

/** Runs a statement beside the store. */
const execute = (world: World, statement: string, ...parameters: ReadonlyArray<string | number>) =>
  Effect.forEach(world.databases, (database) => database.execute(statement, parameters), { discard: true })

const has = (events: ReadonlyArray<RunEvent.RunEvent>, tag: RunEvent.RunEvent["_tag"]) =>
  events.some((event) => event._tag === tag)

/** All mutants; the name says what the store does wrong. */
export const mutants: ReadonlyArray<Mutant> = [
  {
    name: "writes tool.started only with the result",
    scenario: "act",
    mutate: (store) => {
      let held: Append | undefined
      const merged = (options: Append): Append => {
        if (held === undefined) return options
        const events = [...held.events, ...options.events] as unknown as Events
        const { expected } = held
        held = undefined
        return { ...options, events, expected }
      }
      return {
        ...store,
        append: (options) => {
          const all = merged(options)
          if (all.events[all.events.length - 1]?._tag !== "tool.started") return store.append(all)
          held = all
          return Effect.succeed({ revision: (all.expected + all.events.length) as Id.Revision })
        },
        park: (options) => store.park(merged(options))
      }
    }
  },
  {
    name: "acknowledges an end before it is written",
    scenario: "act",
    mutate: (store) => ({
      ...store,
      append: (options) =>
        has(options.events, "run.completed")
          ? Effect.succeed({ revision: (options.expected + options.events.length) as Id.Revision })
          : store.append(options),
      park: (options) =>
        has(options.events, "run.completed")
          ? Effect.succeed({
              parked: true,
              revision: (options.expected + options.events.length) as Id.Revision
            })
          : store.park(options)
    })
  },
  {
    name: "appends a result twice",
    scenario: "act",
    mutate: (store, world) => ({
      ...store,
      append: (options) => {
        const twice = options.events.flatMap((event): ReadonlyArray<RunEvent.RunEvent> =>
          event._tag === "tool.completed" ? [event, event] : [event]
        )
        return Effect.tap(store.append({ ...options, events: twice as unknown as Events }), () =>
          // The head does not show the change.
          execute(
            world,
            "UPDATE fermata_runs SET revision = ? WHERE run_id = ?",
            options.expected + options.events.length,
            options.lease.runId
          )
        )
      }
    })
  },
  {
    name: "loses the arguments that a user edited",
    scenario: "edit",
    mutate: (store) => ({
      ...store,
      load: (runId, options) =>
        Effect.map(store.load(runId, options), (run) => ({
          ...run,
          decisions: run.decisions.map(withoutArguments)
        }))
    })
  },
  {
    name: "loses a message that it acknowledged",
    scenario: "send",
    mutate: (store, world) => ({
      ...store,
      send: (runId, message) =>
        Effect.tap(store.send(runId, message), () =>
          execute(world, "DELETE FROM fermata_messages WHERE run_id = ?", runId)
        )
    })
  },
  {
    name: "leaves requests open when a run ends",
    scenario: "cancel",
    mutate: (store, world) => ({
      ...store,
      append: (options) =>
        Effect.tap(store.append(options), () =>
          options.status === "cancelled"
            ? execute(
                world,
                "UPDATE fermata_requests SET status = 'open' WHERE run_id = ? AND status = 'superseded'",
                options.lease.runId
              )
            : Effect.void
        )
    })
  },
  {
    name: "reports a cancellation that was not requested",
    scenario: "act",
    mutate: (store) => ({
      ...store,
      append: (options) =>
        Effect.map(store.append(options), (appended) => ({ ...appended, cancelReason: "" }))
    })
  },
  {
    name: "does not deliver decisions",
    scenario: "approve",
    mutate: (store) => ({
      ...store,
      decisions: () => Effect.succeed([]),
      load: (runId, options) => Effect.map(store.load(runId, options), (run) => ({ ...run, decisions: [] }))
    })
  },
  {
    name: "forgets its inDoubt requests",
    scenario: "act",
    mutate: (store, world) => ({
      ...store,
      park: (options) =>
        Effect.tap(store.park(options), () =>
          execute(
            world,
            "DELETE FROM fermata_requests WHERE run_id = ? AND kind = 'inDoubt'",
            options.lease.runId
          )
        )
    })
  },
  {
    name: "skips an event",
    scenario: "reads",
    mutate: (store, world) => ({
      ...store,
      append: (options) =>
        Effect.tap(store.append(options), () =>
          has(options.events, "tool.completed")
            ? execute(
                world,
                "UPDATE fermata_journal SET events = ? WHERE run_id = ? AND sequence = ?",
                JSON.stringify(options.events.slice(0, -1)),
                options.lease.runId,
                options.expected
              )
            : Effect.void
        )
    })
  },
  {
    name: "lets two workers have one run",
    scenario: undefined,
    mutate: (store, world) => {
      /** Takes the run from the owner of its lease. */
      const seize: Store["claim"] = (options) => Effect.andThen(world.expireLeases, store.claim(options))
      return {
        ...store,
        claim: seize,
        // Writes behind the journal's current end.
        append: (options) =>
          Effect.catchTag(store.append(options), ["LeaseLost", "RunConflict"], () =>
            Effect.gen(function* () {
              const { owner, runId } = options.lease
              const lease = yield* seize({ runId, owner, ttl: "15 seconds" })
              const { revision } = yield* store.head(runId)
              return yield* store.append({ ...options, lease, expected: revision })
            }).pipe(Effect.catchTag(["RunBusy", "RunNotFound"], () => store.append(options)))
          )
      }
    }
  },
  {
    name: "lets the last decision win",
    scenario: undefined,
    mutate: (store, world) => ({
      ...store,
      decide: (input) =>
        Effect.catchTag(store.decide(input), "AlreadyDecided", ({ decision: first, requestId }) => {
          const decision = { ...input, at: first.at } as Decision.Decision
          return Effect.andThen(
            execute(
              world,
              "UPDATE fermata_requests SET decision = ?, decided_by = ? WHERE request_id = ?",
              JSON.stringify(decision),
              decision.by,
              requestId
            ),
            Effect.map(store.request(requestId), ({ runId }) => ({ runId, decision }))
          ).pipe(Effect.catchTag("RequestNotFound", Effect.die))
        })
    })
  },
  {
    name: "gives a second caller the first decision as its own",
    scenario: undefined,
    mutate: (store, world) => ({
      ...store,
      decide: (asked) =>
        Effect.catchTag(store.decide(asked), "AlreadyDecided", ({ decision, requestId }) =>
          Effect.map(store.request(requestId), ({ runId }) => {
            world.acknowledged.decisions.push({ runId, decision, asked })
            return { runId, decision }
          }).pipe(Effect.catchTag("RequestNotFound", Effect.die))
        )
    })
  },
  {
    name: "completes a run past its mail",
    scenario: undefined,
    pair: "completes+sends",
    mutate: (store) => ({
      ...store,
      park: (options) =>
        has(options.events, "run.completed")
          ? Effect.map(store.append(options), ({ revision }) => ({ parked: true, revision }))
          : store.park(options)
    })
  },
  {
    name: "never notifies of a decision",
    scenario: undefined,
    mutate: (store) => ({
      ...store,
      ready: (filter) =>
        Effect.map(store.ready(filter), (runs) => runs.filter(({ reason }) => reason !== "decided"))
    })
  },
  {
    name: "reports a run as parked and writes nothing",
    scenario: "approve",
    mutate: (store, world) => ({
      ...store,
      park: (options) =>
        Effect.sync(() => {
          const { events, expected, lease } = options
          world.acknowledged.appended.push({ runId: lease.runId, revision: expected, events })
          return { parked: true, revision: (expected + events.length) as Id.Revision }
        })
    })
  },
  {
    name: "removes a run and leaves its requests",
    scenario: "remove",
    mutate: (store, world) => ({
      ...store,
      remove: (runId) => execute(world, "DELETE FROM fermata_runs WHERE run_id = ?", runId)
    })
  },
  {
    name: "keeps an old checkpoint as if it were the newest",
    scenario: "session",
    mutate: (store) => {
      let old: Checkpoint | undefined
      /** The first checkpoint, as that of this revision. */
      const aged = (checkpoint: Checkpoint, revision: number): Checkpoint => {
        old ??= checkpoint
        return { ...old, state: JSON.stringify({ ...JSON.parse(old.state), revision }) }
      }
      return {
        ...store,
        create: (options) =>
          store.create(
            options.checkpoint === undefined || options.parent === undefined
              ? options
              : { ...options, checkpoint: aged(options.checkpoint, options.parent.revision) }
          ),
        park: (options) =>
          store.park(
            options.checkpoint === undefined
              ? options
              : { ...options, checkpoint: aged(options.checkpoint, options.expected + options.events.length) }
          )
      }
    }
  },
  {
    name: "removes a run and leaves its checkpoint",
    scenario: "prune",
    mutate: (store, world) => ({
      ...store,
      prune: (options) =>
        Effect.andThen(
          execute(world, "UPDATE fermata_checkpoints SET run_id = 'no.' || run_id"),
          store.prune(options)
        )
    })
  },
  {
    name: "writes secrets that were taken out",
    scenario: "act",
    mutate: (store) => ({
      ...store,
      create: (options) =>
        store.create({
          ...options,
          events: JSON.parse(JSON.stringify(options.events).replaceAll("[REDACTED:secret]", canary)) as Events
        })
    })
  }
]

/** A store that changes each checkpoint before it writes it, or leaves it out. */
const keeping =
  (change: (checkpoint: Checkpoint) => Checkpoint | undefined): Mutant["mutate"] =>
  (store) => {
    const changed = <A extends { readonly checkpoint?: Checkpoint }>({ checkpoint, ...options }: A) => {
      const kept = checkpoint === undefined ? undefined : change(checkpoint)
      return (kept === undefined ? options : { ...options, checkpoint: kept }) as A
    }
    return {
      ...store,
      create: (options) => store.create(changed(options)),
      park: (options) => store.park(changed(options))
    }
  }

/** Stores that lose data which they may lose. The outcome must be the same. */
export const harmless: ReadonlyArray<Mutant> = [
  { name: "keeps no checkpoint", scenario: "long", mutate: keeping(() => undefined) },
  {
    name: "cuts checkpoints off",
    scenario: "long",
    mutate: keeping((checkpoint) => ({ ...checkpoint, state: checkpoint.state.slice(0, -1) }))
  },
  {
    name: "loses parts of checkpoints",
    scenario: "long",
    mutate: keeping((checkpoint) => ({ ...checkpoint, chunks: checkpoint.chunks.slice(1) }))
  },
  {
    name: "keeps checkpoints under another version",
    scenario: "session",
    mutate: keeping((checkpoint) => ({ ...checkpoint, version: checkpoint.version + 1 }))
  }
]

const withoutArguments = (decision: Decision.Decision): Decision.Decision => {
  if (decision._tag !== "approve") return decision
  const { arguments: _, ...rest } = decision
  return rest
}
