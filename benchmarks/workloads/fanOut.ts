/**
 * Many concurrent runs, each of which mostly waits for its model.
 */
import { demand, repeat, watch } from "../harness/measure.ts"
import { offered, type Workload } from "../harness/Workload.ts"
import { adds, done } from "./scripts.ts"

const pauseMs = 50
const modelCalls = 3
const ideal = pauseMs * modelCalls
const sizes = ["100 runs", "1,000 runs", "10,000 runs"]

/** A barrier at which all runs wait. */
const gate = (runs: number) => {
  const all = Promise.withResolvers<void>()
  const opened = Promise.withResolvers<void>()
  let waiting = 0
  return {
    pass: (): Promise<void> => {
      waiting += 1
      if (waiting === runs) all.resolve()
      return opened.promise
    },
    /** Whether all runs reached the barrier within 20 seconds. */
    allWait: () =>
      Promise.race([
        all.promise.then(() => true),
        new Promise<boolean>((resolve) => setTimeout(() => resolve(false), 20_000).unref())
      ]),
    open: () => opened.resolve()
  }
}

const usedHeap = async (): Promise<number> => {
  for (let turn = 0; turn < 3; turn++) {
    await new Promise((resolve) => setTimeout(resolve, 5))
    globalThis.gc?.()
  }
  return process.memoryUsage().heapUsed
}

export const fanOut: Workload = {
  name: "fanout",
  title: "Fan-out",
  what: `Concurrent runs in memory, each of ${modelCalls} model calls that take ${pauseMs} ms by a timer, with tool calls in between: ideally ${ideal} ms. RSS is the process's maximum. Heap is the live heap after a forced collection while all runs wait for their model, divided by the number of runs.`,
  cases: sizes,
  task: "fanOut",
  apart: true,
  primary: "ideal",
  patience: 180,
  flags: ["--expose-gc"],
  columns: [
    { key: "ideal", title: "wall, × ideal", digits: 2, ratio: true },
    { key: "cpu", title: "CPU, ms" },
    { key: "heap", title: "heap per run, kB" },
    { key: "rss", title: "peak RSS, MB", digits: 0 }
  ],
  targets: [
    {
      says: "1,000 runs: at most 1.5 × the ideal",
      reached: ({ get }) => get("fermata", "1,000 runs", "ideal"),
      most: 1.5
    },
    {
      says: "10,000 runs: at most 7 × the ideal",
      reached: ({ get }) => get("fermata", "10,000 runs", "ideal"),
      most: 7
    },
    {
      says: "10,000 runs: at most 8 kB of heap per waiting run",
      reached: ({ get }) => get("fermata", "10,000 runs", "heap"),
      most: 8
    },
    {
      says: "10,000 runs: at most 400 MB of RSS",
      reached: ({ get }) => get("fermata", "10,000 runs", "rss"),
      most: 400
    }
  ],
  measure: async ({ adapter, ms }, name) => {
    const runs = Number.parseInt(name.replace(",", ""), 10)
    let pause = (): Promise<void> => new Promise((resolve) => setTimeout(resolve, pauseMs))
    const { calls, script } = adds(modelCalls - 1, () => pause())
    const run = await offered(adapter.fanOut)(script)
    const all = async (count: number): Promise<void> => {
      const before = calls()
      const texts = await Promise.all(Array.from({ length: count }, run))
      demand(texts.filter((text) => text === done).length, count, "The number of runs that came to the end")
      demand(calls() - before, count * (modelCalls - 1), "The number of calls")
    }
    // No more runs than are measured: the process's maximum is a figure.
    await repeat({ ms: ms(400) }, () => all(Math.min(runs, 1000)))

    const spent = watch()
    await all(runs)
    const { cpu, wall } = spent()
    // First of all: the floor, which follows in the same process, must not count.
    const rss = (process.resourceUsage().maxRSS * 1024) / 1e6

    const empty = await usedHeap()
    const { allWait, open, pass } = gate(runs)
    pause = pass
    const waiting = all(runs)
    const heap = (await allWait()) ? ((await usedHeap()) - empty) / runs / 1000 : "not all runs were begun"
    open()
    await waiting
    return { ideal: wall / 1000 / ideal, cpu: cpu / 1000, heap, rss }
  }
}
