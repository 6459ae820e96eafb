/**
 * Lets fibers take turns in an order that a seed decides, so that a race can be played again.
 *
 * Every fiber that comes to the turnstile waits there. When nothing in the program can go on by itself any more, one of those
 * that wait is let through.
 */
import { createHash } from "node:crypto"
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import { MixedScheduler } from "effect/Scheduler"

export interface Turnstile {
  /** Waits for its turn. */
  readonly pass: Effect.Effect<void>
  /** Runs a program whose fibers take turns. */
  readonly run: <A>(program: Effect.Effect<A>) => Promise<A>
}

/** Fibers that never come to an end would turn for ever. */
const maxTurns = 50_000

export const make = (random: () => number): Turnstile => {
  const waiting: Array<() => void> = []
  let tasks: Array<() => void> = []
  const scheduler = new MixedScheduler("async", (task) => {
    tasks.push(task)
    return () => {
      tasks = tasks.filter((other) => other !== task)
    }
  })

  const pass = Effect.callback<void>((resume) => {
    const enter = () => resume(Effect.void)
    waiting.push(enter)
    return Effect.sync(() => {
      const at = waiting.indexOf(enter)
      if (at !== -1) waiting.splice(at, 1)
    })
  })

  /** Runs everything that can go on by itself. Promises settle in between. */
  const settle = async () => {
    do {
      while (tasks.length > 0) {
        const due = tasks
        tasks = []
        for (const task of due) task()
      }
      await new Promise<void>((resolve) => setImmediate(resolve))
    } while (tasks.length > 0)
  }

  const run = async <A>(program: Effect.Effect<A>): Promise<A> => {
    let end: Exit.Exit<A> | undefined
    const fiber = Effect.runFork(program, { scheduler })
    fiber.addObserver((exit) => {
      end = exit
    })
    for (let turn = 0; end === undefined; turn++) {
      await settle()
      if (end !== undefined) break
      if (waiting.length === 0) throw new Error("Nothing can go on, and nobody waits for a turn.")
      if (turn > maxTurns) throw new Error(`It is not over after ${maxTurns} turns.`)
      const [enter] = waiting.splice(Math.floor(random() * waiting.length), 1)
      enter?.()
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
  Object.defineProperty(globalThis.crypto.subtle, "digest", { value: digest })
}
