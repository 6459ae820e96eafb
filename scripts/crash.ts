import * as Fs from "node:fs"
import * as Path from "node:path"
import * as Effect from "effect/Effect"
import { damage } from "./crash/damage.ts"
import { pairs } from "./crash/meetingPairs.ts"
import * as Meetings from "./crash/meetings.ts"
import { harmless, mutants } from "./crash/mutants.ts"
import * as Points from "./crash/points.ts"
import { postgres, type PostgresStores } from "./crash/postgres.ts"
import { postgresDatabases } from "./crash/postgresDatabases.ts"
import { processes } from "./crash/processes.ts"
import * as Report from "./crash/report.ts"
import { type Scenario, scenarios } from "./crash/scenarios.ts"
import { play } from "./crash/seeds.ts"
import { findSourceMutants } from "./crash/sourceMutants.ts"
import { fastDirectory, sqliteDatabases } from "./crash/sqliteDatabases.ts"
import { execute, sweep, visit } from "./crash/sweep.ts"
import { hashAtOnce } from "./crash/turnstile.ts"
import type { Databases } from "./crash/world.ts"
/**
 * The crash campaign: breaks everything that can break, and checks the invariants from outside.
 *
 * - `sweep`: scenarios that are hit at every statement, effect and model call, before and after, and at pairs of them.
 * - `seeds`: random scenarios of several workers on one database; a seed always gives the same story.
 * - `meetings`: two processes on one database; the work of one meets every operation of the other, with and without a crash.
 * - `mutants`: stores that are broken on purpose, each of which the parts above must find.
 * - `damage`: every operation on SQLite stores with one damaged row, for each column in turn.
 * - `processes`: real processes that are killed, frozen and terminated, and that decide the same requests.
 * - `restarts`: real processes while a Postgres server crashes again and again.
 *
 * `npm run crash` runs all of it on SQLite, with `--store postgres` on Postgres; `--part sweep` one part, `--ci` what fits into
 * CI, on both stores; `--mutants source` breaks lines of the sources, one at a time, and needs the campaign or a test to find each
 * (`--only revoked` those with that word); `--part damage --only fermata_grants` the damages with that text in their names;
 * `--only move` one scenario, `--only mixed:37a/12b`, `--only parks+cancels:12b` or `--only 4711` one point, meeting or seed
 * again; `--first` ends a sweep, or meetings, at the first violation. `--report` writes the figures into docs/reliability.md.
 * Progress goes to stderr; the last line of stdout is the result as JSON. A violation ends it with 1.
 */
import { readOptions } from "./internal/help.ts"

const { values } = readOptions({
  options: {
    ci: { type: "boolean", default: false },
    /** Seeds; runs, where the restarts are the only part. */
    runs: { type: "string" },
    seed: { type: "string", default: "1" },
    store: { type: "string", default: "sqlite" },
    part: { type: "string", default: "all" },
    points: { type: "string" },
    meetings: { type: "string" },
    kills: { type: "string" },
    workers: { type: "string", default: "3" },
    only: { type: "string" },
    first: { type: "boolean", default: false },
    mutants: { type: "string" },
    report: { type: "boolean", default: false }
  }
})
const isCi = values.ci

/** A campaign with options that it cannot honor must not look like one that found nothing. */
const refuse = (why: string): never => {
  console.error(why)
  process.exit(2)
}
const numberOf = (option: string, given: string): number =>
  /^\d{1,9}$/.test(given) ? Number(given) : refuse(`--${option} takes a number, not "${given}".`)
const pick = (option: "runs" | "points" | "meetings" | "kills", ci: number, full: number): number => {
  const given = values[option]
  if (given === undefined) return isCi ? ci : full
  return numberOf(option, given) || refuse(`--${option} 0 would run nothing.`)
}
const oneOf = (option: "part" | "store", known: ReadonlyArray<string>): string =>
  known.includes(values[option])
    ? values[option]
    : refuse(`--${option} is one of ${known.join(", ")}, not "${values[option]}".`)

const seeds = pick("runs", 200, 20_000)
const points = pick("points", 600, 21_000)
const meetingCount = pick("meetings", 120, 12_000)
const kills = pick("kills", 40, 1000)
/** `--runs` gives the number of seeds, or of runs when the restarts are the only part. */
const restartRuns = () => (wanted === "restarts" ? pick("runs", 0, 5000) : 5000)
const doubles = isCi ? 300 : 10_000
const workers = numberOf("workers", values.workers) || refuse("--workers 0 would run nothing.")
const firstSeed = numberOf("seed", values.seed)
const wanted = oneOf("part", [
  "all",
  "sweep",
  "seeds",
  "meetings",
  "mutants",
  "damage",
  "processes",
  "restarts"
])
const store = oneOf("store", ["sqlite", "postgres"]) === "postgres" ? "Postgres" : "SQLite"
const wants = (one: string) => wanted === "all" || wanted === one
if (wanted === "restarts" && (store === "SQLite" || isCi)) {
  refuse("restarts are of a Postgres server: --part restarts --store postgres, without --ci.")
}

if (wanted === "damage" && store === "Postgres") {
  refuse("damage is done to files of SQLite: --part damage without --store postgres.")
}

const started = performance.now()
const progress = (text: string) =>
  console.error(`${((performance.now() - started) / 1000).toFixed(1).padStart(7)} s  ${text}`)

const violations: Array<string> = []
const result: Record<string, unknown> = { seed: firstSeed }
const figures: Array<Report.Figure> = []
const found = (part: string, list: ReadonlyArray<string>) => {
  violations.push(...list.map((violation) => `${part} ${violation}`))
  for (const violation of list.slice(0, 10)) progress(`VIOLATION ${part} ${violation}`)
}

hashAtOnce()

/** Databases for simulated processes, and the store that they belong to. */
interface Simulated {
  readonly databases: Databases
  readonly store: Report.StoreName
}

const simulated = async (
  store: Report.StoreName,
  use: (simulated: Simulated) => Promise<void>
): Promise<void> => {
  const databases = await (store === "Postgres" ? postgresDatabases() : sqliteDatabases())
  await use({ databases, store })
  await databases.close()
}

/** A part that checks fewer cases than it should has found nothing. */
const counted = (part: string, count: number, least: number) => {
  if (count < least) found(part, [`looked at ${count} instead of ${least}`])
}

const runOnly = async (only: string, simulated: Simulated) => {
  const { databases } = simulated
  if (/^\d+$/.test(only)) return found(`seed ${only}`, await play({ databases, seed: Number(only) }))
  if (only.includes("+")) return runOnlyMeeting(only, simulated)
  const [name = "", text] = only.split(":")
  const scenario = scenarios.find((scenario) => scenario.name === name)
  if (scenario === undefined) {
    const names = scenarios.map(({ name }) => name).join(", ")
    return refuse(`There is no scenario "${name}". There are ${names}.`)
  }
  if (text === undefined) return runSweep(simulated, [scenario], points)
  const calm = await Effect.runPromise(execute(databases, scenario, []))
  const place = { scenario, points: Points.parse(text) }
  const { complaints, execution } = await Effect.runPromise(visit(databases, place, calm.outcome))
  for (const operations of execution.operations) {
    progress(operations.map((what, index) => `${index + 1} ${what}`).join(", "))
  }
  found("sweep", complaints)
}

/** A pair, or one of its meetings. */
const runOnlyMeeting = async (only: string, simulated: Simulated) => {
  const place = Meetings.parse(only)
  if (place === undefined) {
    if (pairs.some(({ name }) => name === only)) return runMeetings(simulated, meetingCount, only)
    return refuse(`There is no pair "${only}". There are ${pairs.map(({ name }) => name).join(", ")}.`)
  }
  const { complaints, operations } = await Meetings.meet(simulated.databases, place)
  for (const list of [operations.first, operations.second]) {
    progress(list.map((what, index) => `${index + 1} ${what}`).join(", "))
  }
  found("meetings", complaints)
}

const runMeetings = async ({ databases, store }: Simulated, meetings: number, only?: string) => {
  const part = `meetings on ${store}`
  const met = await Meetings.meetings({
    databases,
    meetings,
    first: values.first,
    progress: (text) => progress(`${part}: ${text}`),
    ...(only === undefined ? {} : { only })
  })
  found(part, met.violations)
  counted(part, met.meetings, 1)
  result[part] = { pairs: met.pairs, meetings: met.meetings }
  figures.push(["meetings: pairs of processes", store, met.pairs])
  figures.push([
    "meetings: operations at which two processes met, with and without a crash",
    store,
    met.meetings
  ])
  figures.push(["meetings: violations", store, met.violations.length])
}

const runSweep = async (
  { databases, store }: Simulated,
  scenarios: ReadonlyArray<Scenario>,
  points: number
) => {
  const part = `sweep on ${store}`
  const swept = await Effect.runPromise(
    sweep({
      databases,
      scenarios,
      points,
      first: values.first,
      progress: (text) => progress(`${part}: ${text}`)
    })
  )
  found(part, swept.violations)
  counted(part, swept.points, 1)
  result[part] = { points: swept.points, singles: swept.singles, pairs: swept.pairs }
  figures.push(["sweep: scenarios", store, scenarios.length])
  figures.push(["sweep: points at which a process was killed, one by one and in pairs", store, swept.points])
  figures.push(["sweep: violations", store, swept.violations.length])
}

const runSeeds = async ({ databases, store }: Simulated, seeds: number) => {
  const part = `seeds on ${store}`
  let bad = 0
  let done = 0
  let next = firstSeed
  const playAll = async () => {
    while (next < firstSeed + seeds) {
      const seed = next++
      const list = await play({ databases, seed })
      if (list.length > 0) bad += 1
      found(`${part} ${seed}`, list)
      if (++done % 500 === 0) progress(`${part}: ${done} of ${seeds}, ${bad} bad`)
    }
  }
  await Promise.all(Array.from({ length: databases.worlds }, playAll))
  result[part] = { seeds, bad }
  figures.push(["seeds: random scenarios", store, seeds])
  figures.push(["seeds: scenarios with a violation", store, bad])
}

/** A mutant that is not found is a violation. */
const runMutants = async ({ databases, store }: Simulated) => {
  const part = `mutants on ${store}`
  const killed: Array<string> = []
  for (const { mutate, name, pair, scenario } of mutants) {
    let seen: string | undefined
    if (pair !== undefined) {
      const met = await Meetings.meetings({
        databases,
        meetings: 500,
        progress: () => {},
        only: pair,
        mutate,
        first: true
      })
      seen = met.violations[0]
    } else if (scenario !== undefined) {
      const there = scenarios.filter((candidate) => candidate.name === scenario)
      const swept = await Effect.runPromise(
        sweep({ databases, scenarios: there, points: 500, progress: () => {}, mutate, first: true })
      )
      seen = swept.violations[0]
    } else {
      for (let seed = 1; seed <= 400 && seen === undefined; seed++) {
        seen = (await play({ databases, seed, mutate }))[0]
      }
    }
    if (seen === undefined) found(part, [`a store that ${name} is not found`])
    else {
      killed.push(name)
      progress(`${part}: ${name}: ${seen.split("\n")[0]?.slice(0, 160)}`)
    }
  }
  for (const { mutate, name, scenario } of harmless) {
    const there = scenarios.filter((candidate) => candidate.name === scenario)
    for (const one of there) {
      const sound = await Effect.runPromise(execute(databases, one, []))
      const lossy = await Effect.runPromise(execute(databases, one, [], mutate))
      if (JSON.stringify(lossy.outcome) !== JSON.stringify(sound.outcome))
        found(part, [`a store that ${name} changes the outcome`])
    }
    const swept = await Effect.runPromise(
      sweep({ databases, scenarios: there, points: 100, progress: () => {}, mutate })
    )
    counted(`${part}: a store that ${name}`, swept.points, 60)
    found(
      part,
      swept.violations
        // The check reports the unreadable checkpoint, as it should; only the outcome of the runs counts here.
        .filter((violation) => !violation.includes("damaged: The checkpoint of "))
        .map((violation) => `a store that ${name}: ${violation}`)
    )
    progress(`${part}: ${name}: no difference (${swept.points} points)`)
  }
  result[part] = { mutants: mutants.length, killed: killed.length, harmless: harmless.length }
  figures.push([
    "mutants: broken stores that the campaign detected",
    store,
    `${killed.length} of ${mutants.length}`
  ])
}

const runProcesses = async (server: PostgresStores | undefined, store: Report.StoreName, scale: number) => {
  const directory = Fs.mkdtempSync(Path.join(fastDirectory, "fermata-files-"))
  const lived = await processes({
    store: server === undefined ? (name) => Promise.resolve(Path.join(directory, `${name}.db`)) : server.make,
    kills: Math.ceil(kills * scale),
    doubles: Math.ceil(doubles * scale),
    workers,
    seed: firstSeed,
    progress: (text) => progress(`processes on ${store}: ${text}`),
    sqlite: server === undefined
  })
  Fs.rmSync(directory, { recursive: true, force: true })
  const { violations, ...counts } = lived
  found(`processes on ${store}`, violations)
  counted(`processes on ${store}: kills`, counts.kills, Math.ceil(kills * scale))
  result[`processes on ${store}`] = counts
  const figure = (what: string, value: string | number) => figures.push([`processes: ${what}`, store, value])
  figure("killed with SIGKILL", counts.kills)
  figure("killed while they drove trees of sub-agents, three levels of four", counts.treeKills)
  figure("frozen for longer than their lease", counts.stops)
  figure("asked to stop with SIGTERM", counts.terminations)
  figure("longest time to stop after SIGTERM", `${counts.slowestStopMs} ms`)
  figure("left running", counts.leftOver)
  figure("time until another process claimed an orphaned run, median", `${counts.medianTakeoverMs} ms`)
  figure("time until another process claimed an orphaned run, longest", `${counts.slowestTakeoverMs} ms`)
  figure("concurrent decisions of the same requests", counts.decideTries)
  figure("concurrent resumes of the same runs", counts.resumeTries)
  if (server === undefined) figure("second openings of the file of a worker's store", counts.looks)
  figure("tool effects, checked individually", counts.effects)
  figure("effects of bodies in frozen processes, recorded late", counts.lateEffects)
  figure("calls in doubt that opened a request", counts.doubts)
  figure("violations", violations.length)
}

const runRestarts = async (server: PostgresStores) => {
  if (server.chaos === undefined) {
    const why = "a server that was not started here cannot be crashed"
    return wanted === "restarts" ? found("Postgres restarts", [why]) : progress(`restarts: ${why}`)
  }
  const chaos = await server.chaos(restartRuns())
  found("Postgres restarts", chaos.violations)
  counted("Postgres restarts", chaos.runs, restartRuns())
  result["restarts"] = { runs: chaos.runs, restarts: chaos.restarts }
  figures.push(["restarts: crashes of the server", "Postgres", chaos.restarts])
  figures.push(["restarts: runs during the crashes", "Postgres", chaos.runs])
  figures.push(["restarts: violations", "Postgres", chaos.violations.length])
}

const runDamage = async (only?: string) => {
  const { cases, known, violations } = await damage({
    perColumn: isCi ? 1 : 40,
    seed: firstSeed,
    only,
    progress: (text) => progress(`damage: ${text}`)
  })
  found("damage", violations)
  counted("damage", cases, 1)
  result["damage"] = { cases, known }
  figures.push(["damage: stores with one damaged row", "SQLite", cases])
  figures.push(["damage: violations", "SQLite", violations.length])
}

/** Runs the wanted parts on one store. */
const runAll = async (
  store: Report.StoreName,
  scale: { readonly simulated: number; readonly real: number }
) => {
  const scaled = (count: number) => Math.ceil(count * scale.simulated)
  if (wants("sweep") || wants("seeds") || wants("meetings") || wants("mutants")) {
    await simulated(store, async (simulated) => {
      if (wants("sweep")) await runSweep(simulated, scenarios, scaled(points))
      if (wants("seeds")) await runSeeds(simulated, scaled(seeds))
      if (wants("meetings")) await runMeetings(simulated, scaled(meetingCount))
      if (wants("mutants") && scale.simulated === 1) await runMutants(simulated)
    })
  }
  if (store === "SQLite") {
    if (wants("damage")) await runDamage()
    if (wants("processes")) await runProcesses(undefined, store, scale.real)
    return
  }
  if (!wants("processes") && !wants("restarts")) return
  const server = await postgres({ seed: firstSeed, progress })
  if (wants("processes")) {
    await runProcesses(server, store, scale.real)
    const counts = server.counts()
    result["connections"] = counts
    figures.push(["processes: connections cut during a commit", store, counts.commitsCut])
    figures.push(["processes: connections closed by the server", store, counts.connectionsEnded])
  }
  if (wants("restarts") && !isCi) await runRestarts(server)
  await server.close()
}

const only = values.only
if (values.mutants !== undefined) {
  if (values.mutants !== "source") refuse(`--mutants is source, not "${values.mutants}".`)
  const broken = await findSourceMutants({ only, progress })
  found("source mutants", broken.violations)
  counted("source mutants", broken.found.length + broken.violations.length, 1)
  result["source mutants"] = { found: broken.found.length }
  figures.push(["mutants: broken source lines that the campaign detected", store, broken.found.length])
} else if (wanted === "damage" && only !== undefined) await runDamage(only)
else if (only !== undefined) await simulated(store, (simulated) => runOnly(only, simulated))
else {
  await runAll(store, { simulated: 1, real: 1 })
  // Both stores share most of their code.
  if (isCi && store === "SQLite") await runAll("Postgres", { simulated: 0.1, real: 0.2 })
}

const seconds = Math.round((performance.now() - started) / 100) / 10
if (values.report) {
  const command = ["npm run crash --", ...process.argv.slice(2)].join(" ")
  progress(`wrote ${await Report.write(figures, command, new Date())}`)
}
console.log(
  JSON.stringify({ ...result, violations: violations.length, examples: violations.slice(0, 20), seconds })
)
// Timers of a closed store must not keep the campaign alive.
process.exit(violations.length > 0 ? 1 : 0)
