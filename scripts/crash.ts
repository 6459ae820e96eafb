/**
 * The crash campaign: everything that can be broken is broken, and what must hold is checked from outside.
 *
 * - `sweep`: scenarios that are hit at every statement, effect and model call, before and after, and at pairs of them.
 * - `seeds`: random stories of several workers on one database, the same for the same seed.
 * - `processes`: real processes that are killed, frozen, asked to end, and that decide the same requests.
 * - `mutants`: stores that are broken on purpose, each of which the parts above must find.
 *
 * `npm run crash` runs all of it, `npm run crash -- --ci` the part that fits into CI, `npm run crash -- --only mixed:37a/12b` or
 * `--only 4711` one point or seed again. Progress goes to stderr; the last line of stdout is the result as JSON. A violation
 * ends it with 1.
 */
import * as Fs from "node:fs"
import * as Path from "node:path"
import { parseArgs } from "node:util"
import * as Effect from "effect/Effect"
import { mutants } from "./crash/mutants.ts"
import * as Points from "./crash/points.ts"
import { postgres, type PostgresStores } from "./crash/postgres.ts"
import { processes } from "./crash/processes.ts"
import * as Report from "./crash/report.ts"
import { scenarios } from "./crash/scenarios.ts"
import { play } from "./crash/seeds.ts"
import { execute, sweep, visit } from "./crash/sweep.ts"
import { hashAtOnce } from "./crash/turnstile.ts"
import { fastDirectory, sqlite } from "./crash/world.ts"

const { values } = parseArgs({
  options: {
    ci: { type: "boolean", default: false },
    /** Seeds. */
    runs: { type: "string" },
    seed: { type: "string", default: "1" },
    store: { type: "string", default: "sqlite" },
    part: { type: "string", default: "all" },
    points: { type: "string" },
    kills: { type: "string" },
    workers: { type: "string", default: "3" },
    only: { type: "string" },
    report: { type: "boolean", default: false }
  }
})
const isCi = values.ci
const pick = (given: string | undefined, ci: number, full: number) =>
  given === undefined ? (isCi ? ci : full) : Number(given)
const seeds = pick(values.runs, 800, 20_000)
const points = pick(values.points, 4000, 21_000)
const kills = pick(values.kills, 40, 1000)
const doubleDecides = isCi ? 1000 : 10_000
const firstSeed = Number(values.seed)
const wants = (part: string) => values.part === "all" || values.part === part

const started = performance.now()
const progress = (text: string) =>
  console.error(`${((performance.now() - started) / 1000).toFixed(1).padStart(7)} s  ${text}`)

const violations: Array<string> = []
const result: Record<string, unknown> = { seed: firstSeed, store: values.store }
const figures: Array<Report.Figure> = []
const found = (part: string, list: ReadonlyArray<string>) => {
  violations.push(...list.map((violation) => `${part} ${violation}`))
  for (const violation of list.slice(0, 10)) progress(`VIOLATION ${part} ${violation}`)
}

hashAtOnce()
const worlds = await sqlite()

const runOnly = async (only: string) => {
  const [name = "", text] = only.split(":")
  if (text === undefined) return found(`seed ${only}`, await play({ worlds, seed: Number(only) }))
  const scenario = scenarios.find((scenario) => scenario.name === name)
  if (scenario === undefined) throw new Error(`There is no scenario ${name}.`)
  const calm = await Effect.runPromise(execute(worlds, scenario, []))
  const place = { scenario, points: Points.parse(text) }
  const { complaints, execution } = await Effect.runPromise(visit(worlds, place, calm.outcome))
  for (const operations of execution.operations) {
    progress(operations.map((what, index) => `${index + 1} ${what}`).join(", "))
  }
  found("sweep", complaints)
}

const runSweep = async () => {
  const swept = await Effect.runPromise(
    sweep({ worlds, scenarios, points, progress: (text) => progress(`sweep: ${text}`) })
  )
  found("sweep", swept.violations)
  result["sweep"] = { points: swept.points, singles: swept.singles, pairs: swept.pairs }
  figures.push(["points at which a process was hit, scenarios and their pairs", swept.points])
  figures.push(["scenarios", scenarios.length])
}

const runSeeds = async () => {
  let bad = 0
  for (let seed = firstSeed; seed < firstSeed + seeds; seed++) {
    const list = await play({ worlds, seed })
    if (list.length > 0) bad += 1
    found(`seed ${seed}`, list)
    if ((seed - firstSeed + 1) % 500 === 0) progress(`seeds: ${seed - firstSeed + 1} of ${seeds}, ${bad} bad`)
  }
  result["seeds"] = { seeds, bad }
  figures.push(["random stories", seeds])
}

/** A mutant that nobody finds is a violation. */
const runMutants = async () => {
  const killed: Array<string> = []
  for (const { mutate, name, scenario } of mutants) {
    let seen: string | undefined
    if (scenario !== undefined) {
      const there = scenarios.filter((candidate) => candidate.name === scenario)
      const swept = await Effect.runPromise(
        sweep({ worlds, scenarios: there, points: 500, progress: () => {}, mutate, first: true })
      )
      seen = swept.violations[0]
    } else {
      for (let seed = 1; seed <= 400 && seen === undefined; seed++) {
        seen = (await play({ worlds, seed, mutate }))[0]
      }
    }
    if (seen === undefined) found("mutants", [`a store that ${name} is not found`])
    else {
      killed.push(name)
      progress(`mutants: ${name}: ${seen.split("\n")[0]?.slice(0, 160)}`)
    }
  }
  result["mutants"] = { mutants: mutants.length, killed: killed.length }
  figures.push(["broken stores that were found", `${killed.length} of ${mutants.length}`])
}

const runProcesses = async (server: PostgresStores | undefined, label: string, scale: number) => {
  const directory = Fs.mkdtempSync(Path.join(fastDirectory, "fermata-files-"))
  const lived = await processes({
    store: server === undefined ? (name) => Promise.resolve(Path.join(directory, `${name}.db`)) : server.make,
    kills: Math.ceil(kills * scale),
    doubleDecides: Math.ceil(doubleDecides * scale),
    workers: Number(values.workers),
    seed: firstSeed,
    progress: (text) => progress(`processes on ${label}: ${text}`),
    sqlite: server === undefined
  })
  Fs.rmSync(directory, { recursive: true, force: true })
  const { violations, ...counts } = lived
  found(`processes on ${label}`, violations)
  result[`processes on ${label}`] = counts
  figures.push([`processes killed (${label})`, counts.kills])
  figures.push([`processes frozen for longer than their lease (${label})`, counts.stops])
  figures.push([`decisions by several processes at once (${label})`, counts.decideTries])
  figures.push([`effects of tools that were checked one by one (${label})`, counts.effects])
  figures.push([
    `of them late: the body was at work when its process was frozen (${label})`,
    counts.lateEffects
  ])
  figures.push([`slowest end of a process that was asked to (${label})`, `${counts.slowestStopMs} ms`])
}

if (values.only !== undefined) await runOnly(values.only)
else {
  if (values.store === "sqlite") {
    if (wants("sweep")) await runSweep()
    if (wants("seeds")) await runSeeds()
    if (wants("mutants")) await runMutants()
    if (wants("processes")) await runProcesses(undefined, "SQLite", 1)
  }
  if (wants("processes") && (values.store === "postgres" || isCi || values.part === "all")) {
    const server = await postgres({ seed: firstSeed, progress })
    await runProcesses(server, "Postgres", 0.3)
    if (!isCi && server.chaos !== undefined) {
      const chaos = await server.chaos(5000)
      found("Postgres restarts", chaos.violations)
      result["restarts"] = { runs: chaos.runs, restarts: chaos.restarts }
      figures.push(["runs while Postgres was restarted every 5-10 s", chaos.runs])
    }
    result["postgres"] = server.counts()
    await server.close()
  }
}
worlds.close()

const seconds = Math.round((performance.now() - started) / 100) / 10
figures.push(["violations", violations.length])
if (values.report) {
  const command = ["npm run crash --", ...process.argv.slice(2)].join(" ")
  progress(`wrote ${await Report.write(figures, command, new Date())}`)
}
console.log(
  JSON.stringify({ ...result, violations: violations.length, examples: violations.slice(0, 20), seconds })
)
// Timers of a store that was closed must not keep the campaign.
process.exit(violations.length > 0 ? 1 : 0)
