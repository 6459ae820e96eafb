/**
 * The lists of paths, through the tools in real runs.
 */
import * as Fs from "node:fs"
import { join } from "node:path"
import { assert, describe, it } from "@effect/vitest"
import { localSandbox, workspaceTools } from "@fermata/node"
import * as Effect from "effect/Effect"
import { stepOf } from "../../../../scripts/internal/effort.ts"
import { ownPaths, type PathCase } from "../guard/pathCases.ts"
import { secret, type Workspace, workspace } from "../guard/workspace.ts"
import { callerOfAll, type Calling, type Deciding, type Outcome } from "./calling.ts"

const listed = Fs.readFileSync(join(import.meta.dirname, "../fixtures/security/paths.jsonl"), "utf8")
  .trim()
  .split("\n")
  .map((line) => JSON.parse(line) as PathCase)

const written = "written by the test\n"

type Subject = (place: Workspace) => Calling

const onMachine: Subject = ({ root }) => ({
  tools: workspaceTools({ root, rules: { own: [join(root, "fermata.db")] } })
})

const inSandbox: Subject = ({ root }) => ({
  tools: workspaceTools(),
  sandbox: localSandbox({ workdir: root, rules: { own: [join(root, "fermata.db")] } })
})

/** The paths of our own list that are tried: each fourth, or more of them with `FERMATA_EFFORT`. */
const sampled = ownPaths.filter((_, at) => at % stepOf(4) === 0)

type ToolCall = readonly [tool: string, args: object]

/** The calls by which a path is used, by runs. Reading is tried by each tool that reads, and writing by one tool after the other. */
const runsOf = ({ op, path }: PathCase): ReadonlyArray<ReadonlyArray<ToolCall>> =>
  op === "write"
    ? [
        [["write_file", { path, content: written }]],
        [["edit_file", { path, edits: [{ oldText: "export", newText: "changed" }] }]]
      ]
    : [
        [
          ["read_file", { path }],
          ["list_dir", { path, depth: 3 }],
          ["search_files", { path, pattern: "SECRET|root:" }]
        ]
      ]

/** Every call with a policy that lets everything run, and with an approval of each request, before which nothing may have changed. */
const ways = {
  "policy all": { policy: { mode: "all" } },
  approved: { decide: "approve" }
} as const

const problemsOf = (cases: ReadonlyArray<PathCase>, subject: Subject) =>
  Effect.gen(function* () {
    const problems: Array<string> = []
    for (const [way, options] of Object.entries(ways)) {
      const { decide, ...policy }: Pick<Calling, "policy"> & Deciding = options
      const place = yield* workspace
      const call = yield* callerOfAll({ ...subject(place), ...policy })
      for (const one of cases) {
        const path = one.path.replaceAll("/tmp/pt", place.top)
        for (const calls of runsOf({ ...one, path })) {
          const report = (tool: string, problem: string) =>
            problems.push(`${way}: ${tool} ${JSON.stringify(one.path)} (${one.why}): ${problem}`)
          const before = stateOf(place, path)
          const outside = JSON.stringify(place.outside())
          const beforeDecision = () => {
            if (stateOf(place, path) !== before || JSON.stringify(place.outside()) !== outside)
              report(calls[0]![0], "changed before the decision")
          }
          const outcomes = yield* call(calls, { decide, beforeDecision })
          if (JSON.stringify(place.outside()) !== outside) report(calls[0]![0], "changed the outside")
          for (const [at, [tool]] of calls.entries()) {
            const problem = problemOf({ ...one, path }, { way, tool, outcome: outcomes[at]! }, place)
            if (problem !== undefined) report(tool, problem)
          }
        }
      }
    }
    return problems
  }).pipe(Effect.scoped)

/** What a path of the workspace has before a decision about its change. */
const stateOf = ({ root, top }: Workspace, path: string): string => {
  try {
    const at = path.startsWith(top) ? path : join(root, path)
    return at.startsWith(root) && Fs.lstatSync(at).isFile() && Fs.statSync(at).size < 1_000_000
      ? Fs.readFileSync(at, "utf8")
      : "no file"
  } catch {
    return "none"
  }
}

const problemOf = (
  { expect, op, path, why }: PathCase,
  { outcome: answer, tool, way }: { readonly way: string; readonly tool: string; readonly outcome: Outcome },
  { root, top }: Workspace
): string | undefined => {
  const { asked, outcome, result } = answer
  if (`${result} ${asked?.preview ?? ""}`.includes(secret)) return "showed the outside"
  if (result.includes(join(top, "out")) && !path.includes(join(top, "out"))) return "named another path"
  const isDone = outcome === "completed"
  // An edit of a file that does not have the text, a directory that is read as a file, and a file that is listed fail in words.
  if (expect === "allow") {
    if (tool === "write_file") {
      if (way === "approved" && asked === undefined) return "did not ask"
      return isDone &&
        Fs.readFileSync(join(root, path.startsWith(root) ? path.slice(root.length) : path), "utf8") ===
          written
        ? undefined
        : result
    }
    if (tool === "read_file") return isDone && asked === undefined ? undefined : result
    return /refused/.test(result) ? result : undefined
  }
  if (!isDone) return undefined
  if (expect === "literal-or-deny") {
    const literal = join(root, path)
    return tool !== "write_file" || Fs.readFileSync(literal, "utf8") === written
      ? undefined
      : "not written there"
  }
  // Tools that read directories have results for directories inside.
  if (why === "is no regular file or belongs to Fermata" && (path === "src" || path === ".")) return undefined
  if (expect === "deny" && op === "write" && asked !== undefined && way === "approved") return undefined
  if (expect === "ask" && asked !== undefined) return undefined
  if (tool === "list_dir" || tool === "search_files") return `done: ${result}`
  return `done${asked === undefined ? " without a question" : ""}`
}

describe("file tools in a directory of this machine", () => {
  it.live("let no listed path out of the workspace, and refuse none that stays in it", () =>
    Effect.map(problemsOf(listed, onMachine), (problems) => assert.deepStrictEqual(problems, []))
  )
  it.live("let no path of our own list out, and refuse none that stays in it", () =>
    Effect.map(problemsOf(sampled, onMachine), (problems) => assert.deepStrictEqual(problems, []))
  )
})

describe("file tools in a sandbox", () => {
  it.live("let no listed path out of the workspace, and refuse none that stays in it", () =>
    Effect.map(problemsOf(listed, inSandbox), (problems) => assert.deepStrictEqual(problems, []))
  )
})
