/**
 * A run that is held on disk on top of a long conversation, and released by objects that share only the store.
 */
import { demand, median, repeat } from "../harness/measure.ts"
import { offered, type Workload } from "../harness/Workload.ts"
import type { PastMessage } from "../System.ts"
import { done, gated, prose } from "./scripts.ts"

const lengths = ["10 messages", "100 messages", "1,000 messages", "5,000 messages"]

/** The earlier messages of user and model, about 400 characters each. */
const conversation = (messages: number): ReadonlyArray<PastMessage> =>
  Array.from({ length: messages }, (_, at) => ({
    role: at % 2 === 0 ? "user" : "assistant",
    text: prose(at, 400)
  }))

export const hold: Workload = {
  name: "hold",
  title: "Hold cycle",
  what: "A hold cycle after a conversation of the given number of messages of 400 characters: a prompt leads to a call that needs approval, and the run is held on disk; a second client on the same store finds the run, approves the call, and completes the run on disk. Opening the first client and closing both are not counted; opening the second one is.",
  cases: lengths,
  task: "hold",
  // Real prompts make the long conversations first.
  patience: 600,
  primary: "cpu",
  columns: [
    { key: "cpu", title: "CPU, ms", digits: 2, ratio: true },
    { key: "wall", title: "wall, ms", digits: 2, ratio: true },
    { key: "kb", title: "kB written", ratio: true }
  ],
  targets: [
    {
      says: "10 messages: at most 3 × the append floor",
      reached: ({ ratio }) => ratio("fermata", "10 messages", "cpu"),
      most: 3
    },
    {
      says: "5,000 messages: at most 1.2 × the append floor",
      reached: ({ ratio }) => ratio("fermata", "5,000 messages", "cpu"),
      most: 1.2
    },
    ...lengths.map((name) => ({
      says: `${name}: at most 40 kB written`,
      reached: ({ get }: { get: (system: string, name: string, key: string) => number | undefined }) =>
        get("fermata", name, "kb"),
      most: 40
    }))
  ],
  measure: async ({ adapter, ms, prepared }, name) => {
    const messages = Number.parseInt(name.replace(",", ""), 10)
    const task = offered(adapter.hold)
    const cycle = async (timed: <A>(part: () => Promise<A>) => Promise<A>) => {
      const folder = await prepared(`hold-${messages}`, (into) => task.prepare(into, conversation(messages)))
      const { calls, script } = gated()
      const first = await task.open(folder, script)
      const [second, text] = await timed(async () => {
        await first.start()
        demand(calls(), 0, "The number of calls while the run is held")
        const fresh = await task.open(folder, script)
        return [fresh, await fresh.finish()] as const
      })
      demand(text, done, "The final text")
      demand(calls(), 1, "The number of calls")
      await first.close()
      await second.close()
    }
    await repeat({ ms: ms(800), least: 1 }, cycle)
    const cycles = await repeat({ ms: ms(800), least: 3, most: 200 }, cycle)
    return {
      cpu: cycles.reduce((sum, { cpu }) => sum + cpu, 0) / cycles.length / 1000,
      wall: median(cycles.map(({ wall }) => wall)) / 1000,
      kb: median(cycles.map(({ bytes }) => bytes)) / 1000
    }
  }
}
