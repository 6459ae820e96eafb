/**
 * Runs every `examples/NN_title.ts` with its scripted model, each in an empty directory of its own, and `examples/start` (the program of
 * `npm start`) without a terminal. `npm run examples -- 10` runs those whose name starts with `10` and shows their output. Also checks
 * the form of the examples: a `@title` header, an exported `main`, run when executed directly, at most 80 lines
 * unless it is listed below.
 */
import "./internal/help.ts"
import { spawnSync } from "node:child_process"
import * as Fs from "node:fs"
import * as Os from "node:os"
import * as Path from "node:path"
import { SqliteStore } from "@fermata/node"
import * as Effect from "effect/Effect"
import { environment, indent, mapWidth, root, runNode } from "./internal/run.ts"
import { sourceFlags } from "./internal/sourceFlags.ts"

const maxLines = 80
/** Examples that may be longer: programs to copy as a whole. */
const maxLinesOf: Readonly<Record<string, number>> = { "35_web-service.ts": 110 }
const folder = Path.join(root, "examples")
const only = process.argv[2]
const names = [
  ...Fs.readdirSync(folder)
    .filter((name) => /^\d+_.+\.ts$/.test(name))
    .toSorted(),
  "start/main.ts"
].filter((name) => only === undefined || name.startsWith(only))

const formOf = (name: string): ReadonlyArray<string> => {
  if (name === "start/main.ts") return []
  const code = Fs.readFileSync(Path.join(folder, name), "utf8")
  const lines = code.trimEnd().split("\n").length
  const most = maxLinesOf[name] ?? maxLines
  return [
    ...(/^\s*\/\*\*[\s\S]*?@title .+/.test(code) ? [] : ["has no `@title` header"]),
    ...(/^export (const|async function|function) main\b/m.test(code) ? [] : ["does not export `main`"]),
    ...(code.includes("import.meta.main")
      ? []
      : ["does not run when executed directly (`if (import.meta.main) await main()`)"]),
    ...(lines <= most ? [] : [`has ${lines} lines, more than ${most}`])
  ]
}

const inOwnDirectory = async <A>(f: (cwd: string) => A | Promise<A>): Promise<A> => {
  const cwd = Fs.mkdtempSync(Path.join(Os.tmpdir(), "fermata-example-"))
  try {
    return await f(cwd)
  } finally {
    Fs.rmSync(cwd, { recursive: true, force: true })
  }
}

/** The problems that the check reports in the stores of a folder. */
const damageIn = async (cwd: string): Promise<ReadonlyArray<string>> => {
  const stores = Fs.readdirSync(cwd).filter((name) => name.endsWith(".db"))
  const reports = await Promise.all(
    stores.map((name) => Effect.runPromise(SqliteStore.check({ filename: Path.join(cwd, name) })))
  )
  return reports.flatMap(({ problems }) => problems)
}

if (names.length === 0) {
  console.error(only === undefined ? "There are no examples." : `No example starts with ${only}.`)
  process.exitCode = 1
} else if (only !== undefined) {
  // A single example gets the terminal.
  for (const name of names) {
    console.log(`── ${name}`)
    const { status } = await inOwnDirectory((cwd) =>
      spawnSync("node", [...sourceFlags, Path.join(folder, name)], {
        cwd,
        env: environment,
        stdio: "inherit"
      })
    )
    if (status !== 0) process.exitCode = 1
  }
} else {
  const problems = await mapWidth(names, 2, (name) =>
    inOwnDirectory(async (cwd) => {
      const result = await runNode([Path.join(folder, name)], { cwd, timeoutMs: 240_000 })
      return [
        ...formOf(name).map((what) => `${name} ${what}`),
        ...(result.ok ? [] : [`${name} exited with ${result.code}\n${indent(result.output)}`]),
        ...(await damageIn(cwd)).map((what) => `${name} left a store that is damaged: ${what}`)
      ]
    })
  )
  for (const problem of problems.flat()) console.error(problem)
  const failed = problems.filter((list) => list.length > 0).length
  console.log(`${names.length - failed} of ${names.length} examples run`)
  process.exitCode = failed > 0 ? 1 : 0
}
