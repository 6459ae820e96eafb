/**
 * The same turns, on disk at every step.
 */
import { demand, sustained } from "../harness/measure.ts"
import { offered, type Workload } from "../harness/Workload.ts"
import { adds, done } from "./scripts.ts"

export const stored: Workload = {
  name: "stored",
  title: "Stored step",
  what: "The runs of `step`, journaled to SQLite at every step. Microseconds and bytes per turn. Bytes are the process's writes to the operating system, WAL and WAL checkpoints together.",
  cases: ["50 turns", "200 turns", "1,000 turns"],
  task: "stored",
  primary: "cpu",
  columns: [
    { key: "cpu", title: "CPU, µs", ratio: true },
    { key: "wall", title: "wall, µs", ratio: true },
    { key: "bytes", title: "bytes", digits: 0, ratio: true }
  ],
  targets: ["50 turns", "200 turns", "1,000 turns"].flatMap((name) => [
    {
      says: `${name}: at most 3 × the fenced append`,
      reached: ({ ratio }) => ratio("fermata", name, "cpu"),
      most: 3
    },
    {
      says: `${name}: at most 6,000 bytes per step`,
      reached: ({ get }) => get("fermata", name, "bytes"),
      most: 6_000
    }
  ]),
  measure: async ({ adapter, folder, ms }, name) => {
    const turns = Number.parseInt(name.replace(",", ""), 10)
    const { calls, script } = adds(turns)
    const runs = await offered(adapter.stored)(folder(), script)
    const once = async () => {
      const before = calls()
      demand(await runs.run(), done, "The final text")
      demand(calls() - before, turns, "The number of calls")
    }
    // The shorter runs before it have warmed up the longest.
    if (turns <= 200) await sustained({ ms: ms(turns === 50 ? 1500 : 500), least: 1 }, once)
    const { bytes, cpu, wall } = await sustained({ ms: ms(800), least: turns > 200 ? 1 : 3 }, once)
    await runs.close()
    return { cpu: cpu / turns, wall: wall / turns, bytes: bytes / turns }
  }
}
