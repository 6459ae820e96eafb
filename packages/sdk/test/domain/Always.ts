/**
 * What holds of every simulation: each property of a file is shown the same simulations, which are made once.
 */
import * as fc from "fast-check"
import { simulate, type Trace } from "./Simulation.ts"
import { tape } from "./Tape.ts"

const given = process.env["FERMATA_SIMULATIONS"]

/** Simulations per property; `FERMATA_SIMULATIONS=20000` makes so many others, of a new seed each time. */
export const numRuns = Number(given ?? 100)

const seed = process.env["FERMATA_SEED"] ?? (given === undefined ? 1 : Date.now())

/** Simulations that are kept for the next property. What a failure is made smaller with is not. */
const traces = new Map<string, Trace>()
const mostKept = 500

const traceOf = (numbers: ReadonlyArray<number>): Trace => {
  const key = numbers.join()
  const kept = traces.get(key)
  if (kept !== undefined) return kept
  const trace = simulate(numbers)
  if (traces.size < mostKept) traces.set(key, trace)
  return trace
}

/** A test of a property of all simulations. A failure says the seed, for `FERMATA_SEED`. */
export const always = (property: (trace: Trace, numbers: ReadonlyArray<number>) => void) => () =>
  fc.assert(
    fc.property(tape(), (numbers) => property(traceOf(numbers), numbers)),
    // A failure is made smaller for so long only.
    { numRuns, seed: Number(seed), interruptAfterTimeLimit: 120_000 + 50 * numRuns }
  )
