/**
 * Tests the linter's folder order: writes a small tree of imports, allowed and forbidden, into a temporary folder, lints it with the
 * repository's own `.oxlintrc.json`, and compares the reports with the order below. `npm run arrows`; part of `npm run verify`.
 */
import "./internal/help.ts"
import { spawnSync } from "node:child_process"
import * as Fs from "node:fs"
import * as Os from "node:os"
import * as Path from "node:path"

/** The folders of `packages/sdk/src`; a folder imports from the ranks before its own, never from a neighbor in its rank. */
const ranks = [
  ["domain"],
  ["model", "store", "sandbox"],
  ["tool"],
  ["context", "memory"],
  ["agent"],
  ["run"],
  ["durable"],
  ["dispatch"],
  ["schedule"],
  ["control"],
  ["cluster", "observe", "promise", "testing"]
]
const folders = ranks.flat()
const rank = (folder: string) => ranks.findIndex((names) => names.includes(folder))

interface Case {
  readonly file: string
  readonly code: string
  /** The rule that has to report this file, or `undefined` where it must pass. */
  readonly rule?: string | undefined
}

const restricted = "no-restricted-imports"
const sdk = (path: string) => `packages/sdk/src/${path}`
const sqlite = (name: string) => `packages/node/src/internal/sqlite/${name}.ts`
const use = (specifier: string) => `import * as It from "${specifier}"\nexport const it = It\n`

const arrows = folders.flatMap((from): ReadonlyArray<Case> =>
  folders
    .filter((to) => to !== from)
    .map((to) => ({
      file: sdk(`${from}/To${to}.ts`),
      code: use(`../${to}/Leaf.ts`),
      rule: rank(to) < rank(from) ? undefined : restricted
    }))
)

const leaves = folders.map((folder): Case => ({
  file: sdk(`${folder}/Leaf.ts`),
  code: "export const leaf = 1\n"
}))

const others: ReadonlyArray<Case> = [
  { file: sdk("domain/migrations/deep.ts"), code: use("../../store/Leaf.ts"), rule: restricted },
  { file: sdk("domain/typeOnly.ts"), code: `export type { A } from "../agent/Leaf.ts"\n`, rule: restricted },
  {
    file: sdk("domain/dynamic.ts"),
    code: `export const it = import("../agent/Leaf.ts")\n`,
    rule: restricted
  },
  { file: sdk("domain/Core.ts"), code: use("effect/Schema") },
  { file: sdk("domain/Unstable.ts"), code: use("effect/sql/SqlClient"), rule: restricted },
  { file: sdk("domain/Foreign.ts"), code: use("zod"), rule: restricted },
  { file: sdk("store/Unstable.ts"), code: use("effect/sql/SqlClient") },
  { file: sdk("store/Barrel.ts"), code: use("effect"), rule: restricted },
  { file: sdk("store/SubBarrel.ts"), code: use("effect/sql"), rule: restricted },
  { file: sdk("store/Own.ts"), code: use("./index.ts"), rule: restricted },
  { file: sdk("store/Foreign.ts"), code: use("@effect/platform-node/NodeServices"), rule: restricted },
  { file: sdk("agent/OtherBarrel.ts"), code: use("../store/index.ts"), rule: restricted },
  { file: sdk("agent/Self.ts"), code: use("@fermata/sdk/store"), rule: restricted },
  { file: sdk("testing/Contract.ts"), code: use("@effect/vitest") },
  { file: sdk("tool/Builtin.ts"), code: use("node:fs"), rule: "no-nodejs-modules" },
  { file: sdk("tool/Global.ts"), code: "export const cwd = process.cwd()\n", rule: "no-restricted-globals" },
  { file: sdk("model/Round.ts"), code: use("./Trip.ts"), rule: "no-cycle" },
  { file: sdk("model/Trip.ts"), code: use("./Round.ts"), rule: "no-cycle" },
  {
    file: sdk("model/TypeRound.ts"),
    code: `import type { Trip } from "./TypeTrip.ts"\nexport type Round = Trip\n`,
    rule: "no-cycle"
  },
  {
    file: sdk("model/TypeTrip.ts"),
    code: `import type { Round } from "./TypeRound.ts"\nexport type Trip = Round\n`,
    rule: "no-cycle"
  },
  { file: "packages/node/src/Barrel.ts", code: use("effect"), rule: restricted },
  { file: "packages/node/src/Driver.ts", code: use("@effect/sql-sqlite-node"), rule: restricted },
  { file: "packages/node/src/Fine.ts", code: use("node:fs") },
  {
    file: sqlite("Stat"),
    code: `export { statSync } from "node:fs"\nexport { stat } from "node:fs/promises"\n`
  },
  { file: sqlite("Open"), code: `export { openSync } from "node:fs"\n`, rule: restricted },
  {
    file: sqlite("Read"),
    code: `import { readFile } from "node:fs/promises"\nexport const it = readFile\n`,
    rule: restricted
  },
  { file: sqlite("All"), code: use("node:fs"), rule: restricted },
  { file: sqlite("Old"), code: use("fs"), rule: restricted },
  { file: sqlite("Barrel"), code: use("effect"), rule: restricted },
  { file: "examples/Private.ts", code: use("../packages/sdk/src/domain/Leaf.ts"), rule: restricted }
]

const root = Path.join(import.meta.dirname, "..")
const folder = Fs.mkdtempSync(Path.join(Os.tmpdir(), "fermata-arrows-"))
const cases = [...leaves, ...arrows, ...others]
try {
  Fs.copyFileSync(Path.join(root, ".oxlintrc.json"), Path.join(folder, ".oxlintrc.json"))
  for (const { file, code } of cases) {
    Fs.mkdirSync(Path.dirname(Path.join(folder, file)), { recursive: true })
    Fs.writeFileSync(Path.join(folder, file), code)
  }
  const { stdout } = spawnSync(
    Path.join(root, "node_modules/.bin/oxlint"),
    ["--quiet", "--format=unix", "."],
    {
      cwd: folder,
      encoding: "utf8"
    }
  )
  const wrong = cases.flatMap(({ file, code, rule }) => {
    const reports = stdout.split("\n").filter((line) => line.startsWith(`${file}:`))
    if (rule === undefined) return reports
    return reports.some((line) => line.includes(`(${rule})`))
      ? []
      : [`${file}: expected ${rule} for ${code.split("\n")[0]}`]
  })
  if (wrong.length > 0) {
    console.error(wrong.join("\n"))
    process.exitCode = 1
  }
  console.log(`${cases.length - wrong.length} of ${cases.length} imports judged as the folder order says`)
} finally {
  Fs.rmSync(folder, { recursive: true, force: true })
}
