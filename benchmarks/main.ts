import * as ChildProcess from "node:child_process"
import * as Fs from "node:fs"
import * as Os from "node:os"
import * as Path from "node:path"
/**
 * Compares the cost of the same scripted work on Fermata and on every comparable system with the least that it can cost.
 *
 * `npm run bench` runs all of it, `npm run bench -- --only step --systems fermata,floor,ai --rounds 5 --json out.json` a part. The
 * packages are built first, so that the published files are measured. `--write` puts the tables into `docs/performance.md`; so does
 * `--from out.json`, with earlier results. `--profile folder` writes CPU profiles.
 *
 * `--draw` draws the tables of the page anew. `--smoke` runs the checks of CI. `--check` checks the types of the adapters, for which all
 * systems have to be installed.
 */
// The repository's own script, not the packages that are measured.
// oxlint-disable-next-line no-restricted-imports
import { readOptions } from "../scripts/internal/help.ts"
import { drawTables, type Machine, type Report, staleDrawings, writeTables } from "./harness/document.ts"
import { versionOf } from "./harness/packages.ts"
import { asText } from "./harness/report.ts"
import { measure } from "./harness/rounds.ts"
import { smoke } from "./harness/smoke.ts"
import { systems } from "./systems.ts"
import { workloads } from "./workloads.ts"

const root = Path.join(import.meta.dirname, "..")

const { values } = readOptions({
  options: {
    only: { type: "string" },
    systems: { type: "string" },
    rounds: { type: "string", default: "5" },
    json: { type: "string" },
    profile: { type: "string" },
    write: { type: "boolean", default: false },
    from: { type: "string" },
    draw: { type: "boolean", default: false },
    smoke: { type: "boolean", default: false },
    check: { type: "boolean", default: false }
  }
})

/** The chosen items of a list, in its order. */
const choose = <A extends { readonly name: string }>(
  all: ReadonlyArray<A>,
  given: string | undefined,
  what: string
): ReadonlyArray<A> => {
  if (given === undefined) return all
  const names = given.split(",")
  const unknown = names.filter((name) => all.every((one) => one.name !== name))
  if (unknown.length > 0) {
    console.error(
      `There is no ${what} ${unknown.join(", ")}. There are: ${all.map(({ name }) => name).join(", ")}.`
    )
    process.exit(2)
  }
  return all.filter(({ name }) => names.includes(name))
}

if (values.from !== undefined) {
  const { machine, results } = JSON.parse(Fs.readFileSync(values.from, "utf8")) as Report
  writeTables(machine, results)
  process.exit(0)
}

if (values.draw) {
  drawTables()
  process.exit(0)
}

const chosen = choose(systems, values.systems ?? (values.smoke ? "floor,fermata" : undefined), "system")
const work = choose(workloads, values.only, "workload")
const rounds = Number(values.rounds)
if (!Number.isInteger(rounds) || rounds < 1) {
  console.error("--rounds takes a whole number from 1.")
  process.exit(2)
}

/** Runs a program and prints its output only if it fails. */
const run = (command: string, args: ReadonlyArray<string>, cwd: string): void => {
  const { error, status, stderr, stdout } = ChildProcess.spawnSync(command, args, { cwd, encoding: "utf8" })
  if (status === 0) return
  console.error(`${command} ${args.join(" ")} failed.\n${error?.message ?? ""}${stdout}${stderr}`)
  process.exit(1)
}

const profile = values.profile === undefined ? undefined : Path.resolve(values.profile)

const started = performance.now()
run(process.execPath, ["scripts/build.ts"], root)
const missing = (values.check ? systems : chosen).filter(
  ({ installed, packages }) =>
    installed === "benchmarks" && packages.some((name) => versionOf(name) === undefined)
)
if (missing.length > 0) {
  console.log(`Installing what is compared, for ${missing.map(({ title }) => title).join(", ")} …`)
  run("npm", ["ci"], import.meta.dirname)
}

if (values.check) {
  run(process.execPath, ["scripts/tsc.ts", "-p", "benchmarks/peers"], root)
  console.log("The adapters of the other systems fit their types.")
  process.exit(0)
}

// On the disk of this workspace: the system's folder for temporary files may be in memory.
const place = Path.join(root, ".tmp")
Fs.mkdirSync(place, { recursive: true })
const folder = Fs.mkdtempSync(Path.join(place, "bench-"))
const clear = () => Fs.rmSync(folder, { recursive: true, force: true })
process.on("exit", clear)
process.on("SIGINT", () => process.exit(130))
process.on("SIGTERM", () => process.exit(143))

if (values.smoke) {
  const stale = staleDrawings()
  for (const path of stale)
    console.error(`${path} is not what its table says: run \`npm run bench -- --draw\`.`)
  const failed = (await smoke(chosen, folder)) + stale.length
  console.log(failed === 0 ? "nothing grows faster than it may" : `${failed} checks failed`)
  process.exit(failed === 0 ? 0 : 1)
}

const progress = (text: string): void => {
  if (process.stderr.isTTY) process.stderr.write(`\r\x1b[K${text}`)
}

const machine: Machine = {
  date: new Date().toISOString().slice(0, 10),
  cpu: `${Os.cpus().length} × ${Os.cpus()[0]?.model ?? "unknown"}`,
  memoryGb: Math.round(Os.totalmem() / 2 ** 30),
  system: `${Os.type()} ${Os.release()}`,
  node: process.version,
  rounds,
  load: Os.loadavg()[1] ?? 0,
  versions: Object.fromEntries(
    chosen.flatMap(({ packages }) => packages.map((name) => [name, versionOf(name) ?? "not installed"]))
  )
}

const all: Array<Report["results"][number]> = []
for (const workload of work) {
  const results = await measure(workload, chosen, { rounds, folder, profile, say: progress })
  progress("")
  console.log(asText(workload, results, systems))
  all.push({ workload: workload.name, results })
  // After each workload, so that its results are not lost when the rest is stopped.
  if (values.json !== undefined)
    Fs.writeFileSync(values.json, `${JSON.stringify({ machine, results: all } satisfies Report, null, 2)}\n`)
}
if (values.write) writeTables(machine, all)
console.log(`\n${machine.cpu}, Node ${machine.node}, ${((performance.now() - started) / 1000).toFixed(0)} s`)
process.exitCode = all.some(({ results }) =>
  results.some(({ failed, system }) => failed !== undefined && (system === "fermata" || system === "floor"))
)
  ? 1
  : 0
