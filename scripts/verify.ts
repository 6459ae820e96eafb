/**
 * All checks of CI, one line a step: `npm run verify`. Steps of one group run side by side where that is faster on two cores; the
 * output of a step is shown only if it fails. `npm run verify -- docs types` runs only the named steps. The last line counts tests and
 * steps: `N passed, N failed`.
 */
import "./internal/help.ts"
import * as Fs from "node:fs"
import * as Path from "node:path"
import { indent, mapWidth, root, run } from "./internal/run.ts"

interface Step {
  readonly name: string
  readonly command: readonly [string, ...ReadonlyArray<string>]
}

const testReport = Path.join(root, ".tmp/vitest.json")

const script = (name: string, ...args: ReadonlyArray<string>): Step["command"] => [
  "node",
  `scripts/${name}.ts`,
  ...args
]

const groups: ReadonlyArray<ReadonlyArray<Step>> = [
  [
    { name: "format", command: ["oxfmt", "--check"] },
    { name: "lint", command: ["oxlint", "--deny-warnings"] },
    { name: "arrows", command: script("arrows") },
    { name: "barrels", command: script("codegen", "--check") },
    {
      name: "events",
      command: ["node", "--conditions=@fermata/source", "scripts/eventReference.ts", "--check"]
    },
    { name: "lockfile", command: script("lockfile", "--check") },
    { name: "words", command: script("words") },
    { name: "deadcode", command: ["knip", "--no-config-hints"] }
  ],
  [{ name: "types", command: script("tsc", "-b") }],
  [{ name: "build", command: script("build") }],
  // Alone: tests use both cores, and some race processes against each other.
  [
    {
      name: "tests",
      command: [
        "vitest",
        "run",
        "--config=vitest.workspace.ts",
        "--reporter=default",
        "--reporter=json",
        `--outputFile.json=${testReport}`
      ]
    }
  ],
  [
    { name: "typetest", command: ["tstyche"] },
    { name: "docs", command: script("docs") },
    { name: "reference", command: ["npm", "run", "--silent", "docs:api"] }
  ],
  [{ name: "examples", command: ["node", "--conditions=@fermata/source", "scripts/examples.ts"] }],
  [{ name: "crash", command: ["node", "--conditions=@fermata/source", "scripts/crash.ts", "--ci"] }],
  [{ name: "packages", command: script("packages") }],
  // After `packages`, which builds the published files that are measured.
  [{ name: "bench", command: ["node", "benchmarks/main.ts", "--smoke"] }]
]

/** The parts of vitest's JSON report that are used here. */
interface TestReport {
  readonly numPassedTests: number
  readonly numFailedTests: number
  readonly testResults: ReadonlyArray<{
    readonly name: string
    readonly status: string
    readonly message: string
    readonly assertionResults: ReadonlyArray<{
      readonly fullName: string
      readonly status: string
      readonly failureMessages: ReadonlyArray<string>
    }>
  }>
}

/** A line for each failed test: its file, its title, and the first lines of the error. */
const failuresOf = ({ testResults }: TestReport): ReadonlyArray<string> =>
  testResults.flatMap(({ assertionResults, message, name, status }) => {
    const file = Path.relative(root, name)
    const tests = assertionResults.filter((test) => test.status === "failed")
    if (tests.length === 0) return status === "failed" ? [`failed: ${file}: ${message}`] : []
    return tests.map(
      ({ failureMessages, fullName }) =>
        `failed: ${file}: ${fullName}\n${failureMessages.join("\n").split("\n").slice(0, 12).join("\n")}`
    )
  })

const only = process.argv.slice(2)
let passed = 0
let failed = 0
let isBuilt = false

/** When a step is stopped: far later than it ends, so that a slow machine fails no check. */
const timeoutMs = 1_800_000

const perform = async ({ command: [program, ...args], name }: Step) => {
  const result = await run(program, args, { timeoutMs, env: isBuilt ? { FERMATA_BUILT: "1" } : {} })
  const seconds = (result.durationMs / 1000).toFixed(1).padStart(6)
  const last = result.ok ? (result.stdout.trimEnd().split("\n").at(-1) ?? "").trim() : ""
  let note = name === "tests" || last.length > 90 ? "" : last
  if (result.ok) passed += 1
  else failed += 1
  // Programs that later steps start load the built packages.
  if (name === "build" && result.ok) isBuilt = true
  let failures: ReadonlyArray<string> = []
  if (name === "tests" && Fs.existsSync(testReport)) {
    const report = JSON.parse(Fs.readFileSync(testReport, "utf8")) as TestReport
    passed += report.numPassedTests
    failed += report.numFailedTests
    note = `${report.numPassedTests} tests passed, ${report.numFailedTests} failed`
    failures = failuresOf(report)
  }
  console.log(`${result.ok ? "ok  " : "FAIL"} ${name.padEnd(9)} ${seconds} s  ${note}`.trimEnd())
  if (!result.ok) {
    console.log(indent(result.output))
    // Last, because a long output is often shown from its end.
    for (const failure of failures) console.log(indent(failure))
  }
}

Fs.rmSync(testReport, { force: true })
for (const group of groups) {
  await mapWidth(
    group.filter(({ name }) => only.length === 0 || only.includes(name)),
    2,
    perform
  )
}
console.log(`${passed} passed, ${failed} failed`)
process.exitCode = failed > 0 || passed === 0 ? 1 : 0
