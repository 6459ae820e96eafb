/**
 * Many calls in one turn.
 */
import { demand, sustained } from "../harness/measure.ts"
import { offered, type Workload } from "../harness/Workload.ts"
import { done, waits } from "./scripts.ts"

export const parallel: Workload = {
  name: "parallel",
  title: "Parallel tools",
  what: "One turn in memory with 100 calls of a read-only tool that takes 10 ms, then the final text. The floor uses `Promise.all`.",
  cases: ["100 calls"],
  task: "parallel",
  primary: "wall",
  columns: [
    { key: "wall", title: "wall, ms", ratio: true },
    { key: "cpu", title: "CPU, ms" }
  ],
  targets: [
    {
      says: "at most 1.3 × the floor",
      reached: ({ ratio }) => ratio("fermata", "100 calls", "wall"),
      most: 1.3
    }
  ],
  measure: async ({ adapter, ms }) => {
    const { calls, script } = waits(100, 10)
    const run = await offered(adapter.parallel)(script)
    const once = async () => {
      const before = calls()
      demand(await run(), done, "The final text")
      demand(calls() - before, 100, "The number of calls")
    }
    await sustained({ ms: ms(800), most: 50 }, once)
    const { cpu, wall } = await sustained({ ms: ms(800), least: 5, most: 50 }, once)
    return { wall: wall / 1000, cpu: cpu / 1000 }
  }
}
