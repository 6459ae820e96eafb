/**
 * Rounds: in each, every system is measured once, in its own process; the order of the systems rotates with each round.
 */
import { spawn } from "node:child_process"
import * as Path from "node:path"
import type { System } from "../System.ts"
import { median } from "./measure.ts"
import type { Figures, Medians, Workload } from "./Workload.ts"

/** What a process reports about one case. */
export interface Measured {
  readonly name: string
  readonly figures?: Figures
  /** The figures of the floor in the same process. */
  readonly floor?: Figures
  readonly cannot?: string
  readonly failed?: string
}

/** One case of one system over all rounds. */
export interface Result {
  readonly system: string
  readonly name: string
  /** Medians. */
  readonly figures: Figures
  /** Medians of the ratios to the floor in the same process. */
  readonly ratios: Readonly<Record<string, number>>
  readonly rounds: number
  readonly cannot?: string
  readonly failed?: string
}

/** How to measure. */
export interface Options {
  readonly rounds: number
  /** The folder for files of the processes. */
  readonly folder: string
  /** The folder for CPU profiles of the systems, which are then measured without the floor. */
  readonly profile?: string | undefined
  /** Receives the progress. */
  readonly say: (text: string) => void
}

/** Measures a workload. */
export const measure = async (
  workload: Workload,
  systems: ReadonlyArray<System>,
  { folder, profile, rounds, say }: Options
): Promise<ReadonlyArray<Result>> => {
  const chosen = systems.filter(({ name }) => workload.systems?.includes(name) !== false)
  const all = new Map<string, Array<Measured>>()
  // A task that a system cannot do in the first round is not tried again.
  const given = new Set<string>()
  for (let round = 0; round < Math.min(rounds, workload.rounds ?? rounds); round++) {
    for (let place = 0; place < chosen.length; place++) {
      const system = chosen[(place + round) % chosen.length]!
      const parts = workload.apart === true ? workload.cases : [undefined]
      for (const part of parts) {
        const cases = (part === undefined ? workload.cases : [part]).filter(
          (name) => !given.has(`${system.name} ${name}`)
        )
        if (cases.length === 0) continue
        say(`${workload.name}: round ${round + 1}, ${system.name}${part === undefined ? "" : `, ${part}`}`)
        for (const measured of await runWorker(workload, system, part, cases, folder, profile)) {
          const key = `${system.name} ${measured.name}`
          if (measured.figures === undefined) given.add(key)
          all.set(key, [...(all.get(key) ?? []), measured])
        }
      }
    }
  }
  return chosen.flatMap(({ name: system }) =>
    workload.cases.flatMap((name) => {
      const measured = all.get(`${system} ${name}`) ?? []
      return measured.length === 0 ? [] : [summary(system, name, measured)]
    })
  )
}

/** Runs a process; its cases without a result have failed. */
const runWorker = (
  workload: Workload,
  system: System,
  part: string | undefined,
  cases: ReadonlyArray<string>,
  folder: string,
  profile: string | undefined
): Promise<ReadonlyArray<Measured>> =>
  new Promise((resolve) => {
    const patience = workload.patience ?? 120
    const child = spawn(
      process.execPath,
      [
        ...(workload.flags ?? []),
        ...(profile === undefined
          ? []
          : [
              "--cpu-prof",
              `--cpu-prof-dir=${profile}`,
              `--cpu-prof-name=${system.name}-${workload.name}.cpuprofile`
            ]),
        Path.join(import.meta.dirname, "../worker.ts"),
        system.name,
        workload.name,
        ...(part === undefined ? [] : [part])
      ],
      {
        cwd: Path.join(import.meta.dirname, ".."),
        env: {
          ...process.env,
          ...system.environment,
          NODE_ENV: "production",
          NODE_NO_WARNINGS: "1",
          FERMATA_BENCH_FOLDER: folder,
          ...(profile === undefined ? {} : { FERMATA_BENCH_FLOOR: "none" })
        },
        stdio: ["ignore", "ignore", "pipe", "pipe"]
      }
    )
    let lines = ""
    let errors = ""
    let late = false
    const timer = setTimeout(() => {
      late = true
      child.kill("SIGKILL")
    }, patience * 1000)
    child.stdio[3]!.on("data", (data: Buffer) => (lines += String(data)))
    child.stderr!.on("data", (data: Buffer) => (errors = (errors + String(data)).slice(-4000)))
    // Stopping this process must leave no child at work.
    const stop = () => child.kill("SIGKILL")
    process.once("exit", stop)
    child.on("close", () => {
      clearTimeout(timer)
      process.off("exit", stop)
      const found = lines
        .split("\n")
        .filter((line) => line !== "")
        .map((line) => JSON.parse(line) as Measured)
      const missing = cases.filter((name) => found.every((measured) => measured.name !== name))
      const told = errors.split("\n").filter((text) => text.trim() !== "")
      // The last lines of a crash of Node itself are addresses.
      const problem = told.find((text) => /error/i.test(text)) ?? told.at(-1) ?? "it said nothing."
      const failed = late ? `It took more than ${patience} s.` : `The process ended: ${problem.trim()}`
      resolve([...found, ...missing.map((name) => ({ name, failed }))])
    })
  })

const numbers = (values: ReadonlyArray<number | string | undefined>): ReadonlyArray<number> =>
  values.filter((value) => typeof value === "number" && Number.isFinite(value)) as ReadonlyArray<number>

const summary = (system: string, name: string, all: ReadonlyArray<Measured>): Result => {
  const measured = all.filter(({ figures }) => figures !== undefined)
  const last = all.at(-1)!
  const figures: Record<string, number | string> = {}
  const ratios: Record<string, number> = {}
  for (const key of Object.keys(measured[0]?.figures ?? {})) {
    const values = numbers(measured.map(({ figures }) => figures?.[key]))
    const word = measured.at(-1)?.figures?.[key]
    if (values.length > 0) figures[key] = median(values)
    else if (typeof word === "string") figures[key] = word
    const quotients = numbers(
      measured.map(({ figures, floor }) => Number(figures?.[key]) / Number(floor?.[key]))
    )
    if (quotients.length > 0) ratios[key] = median(quotients)
  }
  return {
    system,
    name,
    figures,
    ratios,
    rounds: measured.length,
    ...(last.cannot === undefined ? {} : { cannot: last.cannot }),
    ...(last.failed === undefined ? {} : { failed: last.failed })
  }
}

/** The results, for lookup. */
export const mediansOf = (results: ReadonlyArray<Result>): Medians => {
  const find = (system: string, name: string) =>
    results.find((result) => result.system === system && result.name === name)
  return {
    get: (system, name, key) => {
      const value = find(system, name)?.figures[key]
      return typeof value === "number" ? value : undefined
    },
    ratio: (system, name, key) => find(system, name)?.ratios[key]
  }
}
