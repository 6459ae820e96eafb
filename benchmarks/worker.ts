/**
 * One system and one workload in a process of its own: `node benchmarks/worker.ts fermata step ["50 turns"]`. Writes one line of
 * JSON to its third output for each case, as soon as it is measured.
 *
 * The floor is measured before and after the system, in the same process, so that the same conditions slow both.
 */
import * as Fs from "node:fs"
import * as Path from "node:path"
import type { Measured } from "./harness/rounds.ts"
import { type Bench, type Figures, isRefusal } from "./harness/Workload.ts"
import type { Adapter, System } from "./System.ts"
import { systems } from "./systems.ts"
import { workloads } from "./workloads.ts"

const [systemName, workloadName, only] = process.argv.slice(2)
const system = systems.find(({ name }) => name === systemName)!
const workload = workloads.find(({ name }) => name === workloadName)!
const place = process.env["FERMATA_BENCH_FOLDER"]!

const load = async ({ module }: System): Promise<Adapter> =>
  ((await import(module)) as { readonly adapter: Adapter }).adapter

const scratch = Fs.mkdtempSync(Path.join(place, "work-"))
let folders = 0
const folder = (): string => {
  const path = Path.join(scratch, String(++folders))
  Fs.mkdirSync(path)
  return path
}

const benchOf = (system: System, adapter: Adapter): Bench => ({
  system,
  adapter,
  ms: (milliseconds) => (system.name === "floor" ? milliseconds / 4 : milliseconds),
  folder,
  prepared: async (key, make) => {
    const kept = Path.join(place, `${system.name}-${key}`)
    if (!Fs.existsSync(kept)) {
      const made = folder()
      await make(made)
      Fs.renameSync(made, kept)
    }
    const copy = folder()
    Fs.cpSync(kept, copy, { recursive: true })
    return copy
  }
})

const report = (measured: Measured): void => {
  Fs.writeSync(3, `${JSON.stringify(measured)}\n`)
}

const mean = (a: Figures, b: Figures): Figures =>
  Object.fromEntries(
    Object.entries(a).map(([key, value]) => {
      const other = b[key]
      return [key, typeof value === "number" && typeof other === "number" ? (value + other) / 2 : value]
    })
  )

const floorSystem = systems.find(({ name }) => name === "floor")!
const hasFloor =
  workload.floor !== false && system.name !== "floor" && process.env["FERMATA_BENCH_FLOOR"] !== "none"
const adapter = await load(system)
const floor = hasFloor ? benchOf(floorSystem, await load(floorSystem)) : undefined
const bench = benchOf(system, adapter)
const offer = workload.task === undefined ? undefined : adapter[workload.task]

for (const name of workload.cases) {
  if (only !== undefined && only !== name) continue
  const cannot =
    offer !== undefined && isRefusal(offer as object)
      ? (offer as { readonly cannot: string }).cannot
      : workload.cannot?.(system.name)
  if (cannot !== undefined) {
    report({ name, cannot })
    continue
  }
  try {
    // Where memory counts, the system comes first.
    const before =
      floor === undefined || workload.apart === true ? undefined : await workload.measure(floor, name)
    const figures = await workload.measure(bench, name)
    const after = floor === undefined ? undefined : await workload.measure(floor, name)
    report({
      name,
      figures,
      ...(after === undefined ? {} : { floor: before === undefined ? after : mean(before, after) })
    })
  } catch (error) {
    report({ name, failed: error instanceof Error ? (error.stack ?? error.message) : String(error) })
  }
}
Fs.rmSync(scratch, { recursive: true, force: true })
// Some systems keep timers.
process.exit(0)
