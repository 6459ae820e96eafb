/**
 * Puts the tables into `docs/performance.md`, between the markers of each workload, and draws them. A table that was not measured this
 * time stays unchanged, so each names its time and machine.
 */
import * as ChildProcess from "node:child_process"
import * as Fs from "node:fs"
import * as Path from "node:path"
import { systems } from "../systems.ts"
import { workloads } from "../workloads.ts"
import { stalePlots, writePlots } from "./plots.ts"
import { asMarkdown } from "./report.ts"
import type { Result } from "./rounds.ts"

/** The machine and the time of a measurement. */
export interface Machine {
  readonly date: string
  readonly cpu: string
  readonly memoryGb: number
  readonly system: string
  readonly node: string
  readonly rounds: number
  /** The load of the machine before: the mean number of threads at work over five minutes. */
  readonly load?: number
  readonly versions: Readonly<Record<string, string>>
}

/** The results of a run of the benchmarks; the form of `--json`. */
export interface Report {
  readonly machine: Machine
  readonly results: ReadonlyArray<{ readonly workload: string; readonly results: ReadonlyArray<Result> }>
}

const root = Path.join(import.meta.dirname, "../..")
const path = Path.join(root, "docs/performance.md")

/** Writes the measured tables. */
export const writeTables = (machine: Machine, all: Report["results"]): void => {
  let text = Fs.readFileSync(path, "utf8")
  for (const { results, workload: name } of all) {
    const workload = workloads.find((one) => one.name === name)!
    const rounds = Math.min(machine.rounds, workload.rounds ?? machine.rounds)
    const caption = [
      machine.date,
      `${machine.cpu}, ${machine.memoryGb} GB`,
      machine.system,
      `Node ${machine.node}`,
      rounds === 1 ? "1 round" : `${rounds} rounds`,
      ...(machine.load === undefined ? [] : [`load before it: ${machine.load.toFixed(1)}`])
    ].join("; ")
    text = between(
      text,
      name,
      `${workload.what}\n\n${asMarkdown(workload, results, systems)}\n\n_${caption}._`
    )
  }
  // A partial run does not know the versions of the other systems.
  const isAll = systems.every(({ packages }) =>
    packages.every((name) => machine.versions[name] !== undefined)
  )
  if (isAll) text = between(text, "systems", systemsTable(machine))
  Fs.writeFileSync(path, text)
  ChildProcess.execFileSync(process.execPath, [Path.join(root, "node_modules/oxfmt/bin/oxfmt"), path], {
    cwd: root
  })
  drawTables()
}

/** Draws the tables of the page. */
export const drawTables = (): void => writePlots(Fs.readFileSync(path, "utf8"))

/** The pictures that do not match the page's tables. */
export const staleDrawings = (): ReadonlyArray<string> => stalePlots(Fs.readFileSync(path, "utf8"))

const between = (text: string, name: string, content: string): string => {
  const from = `<!-- bench:${name} -->`
  const to = `<!-- /bench:${name} -->`
  const start = text.indexOf(from)
  const end = text.indexOf(to)
  if (start === -1 || end === -1) throw new Error(`docs/performance.md has no markers for ${name}.`)
  return `${text.slice(0, start + from.length)}\n\n${content}\n\n${text.slice(end)}`
}

const systemsTable = ({ versions }: Machine): string =>
  [
    "| system | versions | tracing and telemetry | store |",
    "| --- | --- | --- | --- |",
    ...systems.map(
      ({ durability, packages, quiet, title }) =>
        `| ${title} | ${packages.map((name) => `\`${name}\` ${versions[name]}`).join(", ")} | ${quiet} | ${durability} |`
    )
  ].join("\n")
