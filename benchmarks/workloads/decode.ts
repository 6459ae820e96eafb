/**
 * Reading a streamed answer in a provider's form. The floor only splits it into its events.
 */
import { sustained } from "../harness/measure.ts"
import type { Medians, Workload } from "../harness/Workload.ts"

/** Loaded when it is measured: Fermata must not be in the processes of the others. */
const load = () => import("./answers.ts")

type Protocol = keyof Awaited<ReturnType<typeof load>>["answers"]

const protocols: ReadonlyArray<Protocol> = ["chat", "responses", "messages"]

export const decode: Workload = {
  name: "decode",
  title: "Decode",
  what: "An answer of 20,000 deltas in a provider's protocol, in chunks of 4 kB, which Fermata's own model clients decode into parts. The floor splits it into events. Microseconds per delta.",
  cases: protocols,
  systems: ["floor", "fermata"],
  primary: "cpu",
  columns: [
    { key: "cpu", title: "CPU, µs", digits: 2, ratio: true },
    { key: "wall", title: "wall, µs", digits: 2 }
  ],
  targets: protocols.map((name) => ({
    says: `${name}: at most 3 µs per delta above the floor`,
    reached: ({ get }: Medians) => {
      const ours = get("fermata", name, "cpu")
      const floor = get("floor", name, "cpu")
      return ours === undefined || floor === undefined ? undefined : ours - floor
    },
    most: 3
  })),
  measure: async ({ ms, system }, name) => {
    const { answers, decodeAnswer, deltas, splitEvents } = await load()
    const protocol = protocols.find((one) => one === name)
    if (protocol === undefined) throw new Error(`There is no protocol ${name}.`)
    const once = () => (system.name === "floor" ? splitEvents(answers[protocol]) : decodeAnswer(protocol))
    await sustained({ ms: ms(500) }, once)
    const { cpu, wall } = await sustained({ ms: ms(500) }, once)
    return { cpu: cpu / deltas, wall: wall / deltas }
  }
}
