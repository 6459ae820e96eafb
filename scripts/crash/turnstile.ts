/**
 * Lets fibers take turns in an order that the caller chooses, so that a race can be played again.
 *
 * Every fiber that comes to the turnstile waits there. When nothing in the program can go on by itself any more, one of those
 * that wait is chosen and let through.
 */
import { createHash } from "node:crypto"
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import { MixedScheduler } from "effect/Scheduler"
import type { Activity, Database } from "./world.ts"

export interface Turnstile<Label> {
  /** Waits for its turn. The label tells the choice what waits. */
  readonly pass: (label: Label) => Effect.Effect<void>
  /** Runs a program whose fibers take turns. */
  readonly run: <A>(program: Effect.Effect<A>) => Promise<A>
}

interface Waiting<Label> {
  readonly fiber: number
  readonly label: Label
  readonly enter: () => void
}

/** Which of those that wait is next: its index. They are in an order that no answer's delay decides. */
export type Choose<Label> = (waiting: ReadonlyArray<Label>) => number

/** Any of them, as a seed says. */
export const randomly =
  (random: () => number): Choose<unknown> =>
  ({ length }) =>
    Math.floor(random() * length)

/** Fibers that are not over after `maxTurns` are taken to turn for ever. */
export const make = <Label = void>(
  choose: Choose<Label>,
  activity: Database["activity"],
  maxTurns = 50_000
): Turnstile<Label> => {
  const waiting: Array<Waiting<Label>> = []
  let tasks: Array<() => void> = []
  let wake = () => {}
  const scheduler = new MixedScheduler("async", (task) => {
    tasks.push(task)
    wake()
    return () => {
      tasks = tasks.filter((other) => other !== task)
    }
  })

  const pass = (label: Label) =>
    Effect.withFiber<void>((fiber) =>
      Effect.callback((resume) => {
        const mine = { fiber: fiber.id, label, enter: () => resume(Effect.void) }
        waiting.push(mine)
        return Effect.sync(() => {
          const at = waiting.indexOf(mine)
          if (at !== -1) waiting.splice(at, 1)
        })
      })
    )

  /** Until the database has answered a session, or it is time to ask what it does. */
  const answer = () =>
    new Promise<void>((resolve) => {
      const timer = setTimeout(resolve, 1)
      wake = () => {
        clearTimeout(timer)
        resolve()
      }
    })

  /** Runs everything that can go on by itself, the database included. Promises settle in between. */
  const settle = async (): Promise<Activity> => {
    let doing: Activity
    do {
      while (tasks.length > 0) {
        const due = tasks
        tasks = []
        for (const task of due) task()
      }
      await new Promise<void>((resolve) => setImmediate(resolve))
      doing = await activity()
      if (doing === "working" && tasks.length === 0) await answer()
    } while (tasks.length > 0 || doing === "working")
    return doing
  }

  const run = async <A>(program: Effect.Effect<A>): Promise<A> => {
    let end: Exit.Exit<A> | undefined
    const fiber = Effect.runFork(program, { scheduler })
    fiber.addObserver((exit) => {
      end = exit
    })
    for (let turn = 0; end === undefined; turn++) {
      const doing = await settle()
      if (end !== undefined) break
      if (turn > maxTurns) throw new Error(`It is not over after ${maxTurns} turns.`)
      // Sessions that wait for each other: the database ends one of them.
      if (waiting.length === 0 && doing === "blocked") continue
      if (waiting.length === 0) throw new Error("Nothing can go on, and no fiber waits for a turn.")
      waiting.sort((one, other) => one.fiber - other.fiber)
      const [next] = waiting.splice(choose(waiting.map(({ label }) => label)), 1)
      next?.enter()
    }
    if (Exit.isSuccess(end)) return end.value
    throw Cause.squash(end.cause)
  }
  return { pass, run }
}

/** The platform hashes on another thread, whose timing no seed decides; here it is done at once. */
export const hashAtOnce = (): void => {
  const digest = (_: unknown, data: Uint8Array) =>
    Promise.resolve(new Uint8Array(createHash("sha256").update(data).digest()).buffer)
  Object.defineProperty(globalThis.crypto.subtle, "digest", { value: digest, configurable: true })
}
