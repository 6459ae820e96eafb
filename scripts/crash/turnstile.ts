/**
 * Lets fibers take turns in an order that the caller chooses, so that a race can be played again.
 *
 * Every fiber that comes to the turnstile waits there. When nothing in the program can continue by itself, one of the waiting fibers is
 * chosen and admitted.
 */
import { createHash } from "node:crypto"
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import { MixedScheduler } from "effect/Scheduler"
import type { Activity, Database } from "./world.ts"

export interface Turnstile<Label> {
  /** Waits for its turn. The label describes the fiber for the choice. */
  readonly pass: (label: Label) => Effect.Effect<void>
  /** Runs a program whose fibers take turns. */
  readonly run: <A>(program: Effect.Effect<A>) => Promise<A>
}

interface Waiting<Label> {
  readonly fiber: number
  readonly label: Label
  readonly enter: () => void
}

/** Chooses the next of the waiting fibers, by its index. Their order does not depend on the delay of any answer. */
export type Choose<Label> = (waiting: ReadonlyArray<Label>) => number

/** A choice by a seed. */
export const randomly =
  (random: () => number): Choose<unknown> =>
  ({ length }) =>
    Math.floor(random() * length)

/** Makes a turnstile. A program that has not ended after `maxTurns` fails. */
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

  /** Resolves when the database has answered a session, or when it is time to query its activity. */
  const answer = () =>
    new Promise<void>((resolve) => {
      const timer = setTimeout(resolve, 1)
      wake = () => {
        clearTimeout(timer)
        resolve()
      }
    })

  /** Runs everything that can continue by itself, the database included. Promises settle in between. */
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
      if (turn > maxTurns) throw new Error(`The program has not ended after ${maxTurns} turns.`)
      // Sessions that wait for each other: the database ends one of them.
      if (waiting.length === 0 && doing === "blocked") continue
      if (waiting.length === 0) throw new Error("Nothing can continue, and no fiber waits for a turn.")
      waiting.sort((one, other) => one.fiber - other.fiber)
      const [next] = waiting.splice(choose(waiting.map(({ label }) => label)), 1)
      next?.enter()
    }
    if (Exit.isSuccess(end)) return end.value
    throw Cause.squash(end.cause)
  }
  return { pass, run }
}

/** Hashes synchronously: the platform hashes on another thread, whose timing no seed decides. */
export const hashAtOnce = (): void => {
  const digest = (_: unknown, data: Uint8Array) =>
    Promise.resolve(new Uint8Array(createHash("sha256").update(data).digest()).buffer)
  Object.defineProperty(globalThis.crypto.subtle, "digest", { value: digest, configurable: true })
}
