/**
 * Properties of all simulations: the properties of a file share the same simulations.
 */
import * as fc from "fast-check"
import { simulate, type Trace } from "./Simulation.ts"
import { tape } from "./Tape.ts"

const given = process.env["FERMATA_SIMULATIONS"]

/** Simulations per property; `FERMATA_SIMULATIONS=20000` runs as many with a new seed. */
export const numRuns = Number(given ?? 100)

const seed = process.env["FERMATA_SEED"] ?? (given === undefined ? 1 : Date.now())

/** Simulations kept for the next property. Those made while shrinking are not kept. */
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

/** Tests a property of all simulations. A failure reports the seed for `FERMATA_SEED`. */
export const always = (property: (trace: Trace, numbers: ReadonlyArray<number>) => void) => () =>
  fc.assert(
    fc.property(tape(), (numbers) => property(traceOf(numbers), numbers)),
    // Limits the time for shrinking a failure.
    { numRuns, seed: Number(seed), interruptAfterTimeLimit: 120_000 + 50 * numRuns }
  )
