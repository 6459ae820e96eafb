/**
 * A long answer, piece by piece, to one consumer.
 */
import { demand, sustained } from "../harness/measure.ts"
import { offered, type Workload } from "../harness/Workload.ts"

const deltas = Array.from({ length: 20_000 }, (_, at) => `word${at} `)
const characters = deltas.reduce((sum, { length }) => sum + length, 0)

export const stream: Workload = {
  name: "stream",
  title: "Stream",
  what: "An answer of 20,000 deltas, which the model yields one by one from an async generator, to one consumer in memory. Microseconds per delta.",
  cases: ["20,000 deltas"],
  task: "stream",
  primary: "cpu",
  columns: [
    { key: "cpu", title: "CPU, µs", digits: 2, ratio: true },
    { key: "wall", title: "wall, µs", digits: 2 }
  ],
  targets: [
    {
      says: "at most 6 × a bare async generator",
      reached: ({ ratio }) => ratio("fermata", "20,000 deltas", "cpu"),
      most: 6
    }
  ],
  measure: async ({ adapter, ms }) => {
    const run = await offered(adapter.stream)({ prompt: "Tell me all of it.", deltas })
    const once = async () => {
      const seen = await run()
      demand(seen.characters, characters, "The number of characters")
      demand(seen.deltas, deltas.length, "The number of deltas")
    }
    await sustained({ ms: ms(800) }, once)
    const { cpu, wall } = await sustained({ ms: ms(800) }, once)
    return { cpu: cpu / deltas.length, wall: wall / deltas.length }
  }
}
