/**
 * Turns of one model call and one tool call, in memory.
 */
import { demand, sustained } from "../harness/measure.ts"
import { offered, type Workload } from "../harness/Workload.ts"
import { adds, done } from "./scripts.ts"

export const step: Workload = {
  name: "step",
  title: "Step",
  what: "Runs of 50 and of 200 turns in memory; each turn is one model call and one call of a tool that adds two numbers. Microseconds per turn.",
  cases: ["50 turns", "200 turns"],
  task: "step",
  primary: "cpu",
  columns: [
    { key: "cpu", title: "CPU, µs", ratio: true },
    { key: "wall", title: "wall, µs" }
  ],
  targets: [
    {
      says: "50 turns: at most 20 × the bare loop",
      reached: ({ ratio }) => ratio("fermata", "50 turns", "cpu"),
      most: 20
    },
    {
      says: "200 turns: at most 20 × the bare loop",
      reached: ({ ratio }) => ratio("fermata", "200 turns", "cpu"),
      most: 20
    },
    {
      says: "a turn of 200 costs at most 1.1 × a turn of 50",
      reached: ({ get }) => {
        const long = get("fermata", "200 turns", "cpu")
        const short = get("fermata", "50 turns", "cpu")
        return long === undefined || short === undefined ? undefined : long / short
      },
      most: 1.1
    }
  ],
  measure: async ({ adapter, ms }, name) => {
    const turns = Number.parseInt(name, 10)
    const { calls, script } = adds(turns)
    const run = await offered(adapter.step)(script)
    const once = async () => {
      const before = calls()
      demand(await run(), done, "The final text")
      demand(calls() - before, turns, "The number of calls")
    }
    // The compiler takes its time, and has finished when the second case begins.
    await sustained({ ms: ms(turns === 50 ? 1800 : 300), most: 100_000 }, once)
    const { cpu, wall } = await sustained({ ms: ms(300), most: 100_000 }, once)
    return { cpu: cpu / turns, wall: wall / turns }
  }
}
