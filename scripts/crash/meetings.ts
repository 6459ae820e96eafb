/**
 * The meetings: two processes on one database. The first runs up to one of its operations; there the second does all its work, and then
 * the first continues, or crashes. Where the second waits for a lock, the first continues until the second gets it.
 *
 * Every pair in `meetingPairs.ts` meets at every operation, without a crash and with one of the first or the second process. A process
 * without faults then takes up the remaining runs, every run must end, and everything is checked.
 */
import type { FaultySqlClient } from "@fermata/sdk/testing"
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import { spread } from "../../packages/sdk/src/testing/internal/simulation/points.ts"
import { type App, type Lived, live, type Plan, type Store } from "./app.ts"
import { judge } from "./evidence.ts"
import { type Meeting, pairs } from "./meetingPairs.ts"
import { faultOf, letterOf } from "./points.ts"
import * as Turnstile from "./turnstile.ts"
import { finish } from "./user.ts"
import * as World from "./world.ts"

type Fault = FaultySqlClient.Fault
type Who = "first" | "second"

/** A meeting of two processes. */
export interface Place {
  readonly pair: Meeting
  /** The operation of the first process before which they meet, from 1. */
  readonly operation: number
  /** The fault of that operation after the meeting. */
  readonly fault: Fault
  /** The operation of the second process at which it crashes. */
  readonly second?: { readonly operation: number; readonly fault: Fault }
}

/** The meeting's name, by which it can be run again: `parks+cancels:12`, `parks+cancels:12b` or `parks+cancels:12/7a`. */
const nameOf = ({ fault, operation, pair, second }: Place): string => {
  const other = second === undefined ? "" : `/${second.operation}${letterOf(second.fault)}`
  return `${pair.name}:${operation}${letterOf(fault)}${other}`
}

/** Parses such a name; `undefined` for another text. */
export const parse = (text: string): Place | undefined => {
  const [, name, operation, letter, other, otherLetter] =
    /^([^:]+\+[^:]+):(\d+)([ab]?)(?:\/(\d+)([ab]))?$/.exec(text) ?? []
  const pair = pairs.find((pair) => pair.name === name)
  if (pair === undefined) return undefined
  return {
    pair,
    operation: Number(operation),
    fault: faultOf(letter ?? "") ?? "pass",
    ...(other === undefined
      ? {}
      : { second: { operation: Number(other), fault: faultOf(otherLetter ?? "") ?? "pass" } })
  }
}

/** An operation that waits for its turn. */
interface Turn {
  readonly who: Who
  readonly what: string
  fault: Fault
}

/** The operation at which the second process, with its store open, waits for the meeting. */
const gate = "the meeting"

/** A statement that SQLite refuses while another connection writes, instead of waiting. */
const needsLock = (what: string) => /^(BEGIN IMMEDIATE|INSERT|UPDATE|DELETE)/.test(what)

/** Decides which process has the turn. */
class Stage {
  readonly passed = { first: 0, second: 0 }
  readonly ended = { first: false, second: false }
  /** The process in the middle of a SQLite transaction. */
  writing: Who | undefined
  /** Whether the second process was admitted. */
  hasMet = false
  readonly place: Place

  constructor(place: Place) {
    this.place = place
  }

  readonly choose = (waiting: ReadonlyArray<Turn>): number => {
    const next = this.next(waiting)
    const turn = waiting[next]!
    this.take(turn)
    return next
  }

  next(waiting: ReadonlyArray<Turn>): number {
    const free = (who: Who) =>
      waiting.findIndex(
        (turn) =>
          turn.who === who &&
          turn.what !== gate &&
          (this.writing === undefined || this.writing === who || !needsLock(turn.what))
      )
    const first = free("first")
    const second = free("second")
    const atGate = waiting.findIndex(({ what }) => what === gate)
    if (!this.hasMet) {
      // The second process opens its store before they meet.
      if (atGate === -1 && second !== -1) return second
      const isThere = this.passed.first >= this.place.operation - 1 || this.ended.first
      if (!isThere && first !== -1) return first
      if (atGate !== -1) {
        this.hasMet = true
        return atGate
      }
    }
    if (second !== -1) return second
    return Math.max(first, 0)
  }

  take(turn: Turn): void {
    const { what, who } = turn
    if (what === gate) return
    const { fault, second } = this.place
    this.passed[who] += 1
    if (this.hasMet && who === "first" && this.passed.first === this.place.operation) turn.fault = fault
    if (who === "second" && this.passed.second === second?.operation) turn.fault = second.fault
    if (what === "BEGIN IMMEDIATE") this.writing = who
    else if (/^(COMMIT|ROLLBACK)/.test(what) && this.writing === who) this.writing = undefined
  }

  readonly end = (who: Who): void => {
    this.ended[who] = true
    if (this.writing === who) this.writing = undefined
  }
}

/** The outcome of a meeting. */
export interface Met {
  readonly complaints: ReadonlyArray<string>
  readonly operations: { readonly [who in Who]: ReadonlyArray<string> }
}

/** Runs a meeting. */
export const meet = async (
  databases: World.Databases,
  place: Place,
  mutate?: (store: Store, world: World.World) => Store
): Promise<Met> => {
  const { pair } = place
  const operations: { [who in Who]: ReadonlyArray<string> } = { first: [], second: [] }
  const complaints: Array<string> = []
  const meeting = Effect.gen(function* () {
    const world = yield* World.make(databases, { two: pair.two })
    const options = {
      world,
      definition: pair.definition,
      ...(mutate === undefined ? {} : { mutate: (store: Store) => mutate(store, world) })
    }
    const complain = (who: string, { crashed, exit }: Lived<unknown>) => {
      // A refusal is a valid answer.
      if (Exit.isFailure(exit) && !crashed && Cause.hasDies(exit.cause)) {
        complaints.push(`the ${who} process died: ${Cause.pretty(exit.cause)}`)
      }
    }
    const before = yield* live(
      {
        ...options,
        owner: "worker-0",
        plan: (what) => (what === pair.crashesAt ? "crashAfter" : "pass")
      },
      pair.prepare
    )
    if (Exit.isFailure(before.exit) && !before.crashed) {
      complaints.push(`it cannot be prepared: ${Cause.pretty(before.exit.cause)}`)
    }
    if (before.crashed) yield* world.expireLeases

    const stage = new Stage(place)
    const turnstile = Turnstile.make<Turn>(stage.choose, world.activity, maxTurns)
    const process = (who: Who, use: (app: App) => Effect.Effect<unknown, unknown>) =>
      Effect.gen(function* () {
        const plan: Plan = (what) => {
          const turn: Turn = { who, what, fault: "pass" }
          return Effect.map(turnstile.pass(turn), () => turn.fault)
        }
        const lived = yield* live({ ...options, owner: who, plan }, use)
        stage.end(who)
        operations[who] = lived.operations
        complain(who, lived)
      })
    const seconds = (app: App) =>
      Effect.andThen(turnstile.pass({ who: "second", what: gate, fault: "pass" }), pair.second(app))
    yield* Effect.promise(() =>
      turnstile
        .run(
          Effect.all([process("first", pair.first), process("second", seconds)], {
            concurrency: 2,
            discard: true
          })
        )
        .catch((error: unknown) => {
          complaints.push(`stuck: ${error instanceof Error ? error.message : String(error)}`)
        })
    )

    yield* world.expireLeases
    const last = yield* live({ ...options, owner: "last", plan: () => "pass" }, (app) =>
      Effect.andThen(pair.again(app), finish(app.second ?? app))
    )
    if (Exit.isSuccess(last.exit)) complaints.push(...last.exit.value)
    else complaints.push(`the last process failed: ${Cause.pretty(last.exit.cause)}`)
    const { violations } = yield* judge(world)
    complaints.push(...violations)
  })
  await Effect.runPromise(Effect.scoped(meeting))
  return { complaints: complaints.map((complaint) => `${nameOf(place)} ${complaint}`), operations }
}

export interface MeetingsOptions {
  readonly databases: World.Databases
  /** The most meetings to run. */
  readonly meetings: number
  readonly progress: (text: string) => void
  readonly only?: string
  readonly mutate?: (store: Store, world: World.World) => Store
  /** Stops at the first violation. */
  readonly first?: boolean
}

/** The outcome of the meetings. */
export interface Meetings {
  readonly pairs: number
  readonly meetings: number
  readonly violations: ReadonlyArray<string>
}

/** Every operation at which the processes of a pair can meet. The crashes of the second process are spread over its operations. */
const placesOf = (pair: Meeting, { first, second }: Met["operations"]): ReadonlyArray<Place> =>
  first.flatMap((_, index) => {
    const place = { pair, operation: index + 1, fault: "pass" as const }
    const places: Array<Place> = [
      place,
      { ...place, fault: "crashBefore" },
      { ...place, fault: "crashAfter" }
    ]
    if (second.length > 0) {
      const operation = 1 + ((index * 7) % second.length)
      places.push({ ...place, second: { operation, fault: index % 2 === 0 ? "crashAfter" : "crashBefore" } })
    }
    return places
  })

/** Runs all meetings. */
export const meetings = async (options: MeetingsOptions): Promise<Meetings> => {
  const { databases, mutate, only, progress } = options
  const violations: Array<string> = []
  const wanted = pairs.filter(({ name }) => only === undefined || name === only)
  const places: Array<ReadonlyArray<Place>> = []
  const isDone = () => options.first === true && violations.length > 0
  const atOnce = async <A>(items: ReadonlyArray<A>, use: (item: A, index: number) => Promise<void>) => {
    let next = 0
    const work = async () => {
      while (next < items.length && !isDone()) {
        const index = next++
        await use(items[index]!, index)
      }
    }
    await Promise.all(Array.from({ length: databases.worlds }, work))
  }
  await atOnce(wanted, async (pair, index) => {
    const alone = await meet(databases, { pair, operation: afterTheEnd, fault: "pass" })
    violations.push(...alone.complaints)
    places[index] = placesOf(pair, alone.operations)
  })
  const all = places.flat()
  const chosen = spread(all, options.meetings)
  let done = 0
  await atOnce(chosen, async (place) => {
    const { complaints } = await meet(databases, place, mutate)
    violations.push(...complaints)
    if (++done % 500 === 0) {
      progress(`${done} of ${chosen.length} of ${all.length} meetings, ${violations.length} violations`)
    }
  })
  return { pairs: wanted.length, meetings: done, violations }
}

/** Many times the turns of two processes that end. */
const maxTurns = 5000

/** The second process comes when the first has ended. */
const afterTheEnd = 1_000_000
