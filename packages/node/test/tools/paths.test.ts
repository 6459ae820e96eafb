/**
 * The lists of paths, through the tools in real runs.
 */
import * as Fs from "node:fs"
import { join } from "node:path"
import { assert, describe, it } from "@effect/vitest"
import { localSandbox, workspaceTools } from "@fermata/node"
import * as Effect from "effect/Effect"
import { ownPaths, type PathCase } from "../guard/pathCases.ts"
import { secret, type Workspace, workspace } from "../guard/workspace.ts"
import { type Call, caller, type Calling, type Deciding } from "./calling.ts"

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

/** The calls by which a path is used. Reading is tried by each tool that reads. */
const callsOf = ({ op, path }: PathCase) =>
  op === "write"
    ? ([
        ["write_file", { path, content: written }],
        ["edit_file", { path, edits: [{ oldText: "export", newText: "changed" }] }]
      ] as const)
    : ([
        ["read_file", { path }],
        ["list_dir", { path, depth: 3 }],
        ["search_files", { path, pattern: "SECRET|root:" }]
      ] as const)

/** Every call without a decision, with a policy that lets everything run, and with an approval of each request. */
const ways = {
  held: {},
  "policy all": { policy: { mode: "all" } },
  approved: { decide: "approve" }
} as const

const problemsOf = (
  cases: ReadonlyArray<PathCase>,
  subject: Subject,
  names: ReadonlyArray<keyof typeof ways>
) =>
  Effect.gen(function* () {
    const problems: Array<string> = []
    for (const way of names) {
      const { decide, ...policy }: Pick<Calling, "policy"> & Deciding = ways[way]
      const place = yield* workspace
      const call = yield* caller({ ...subject(place), ...policy })
      for (const one of cases) {
        const path = one.path.replaceAll("/tmp/pt", place.top)
        for (const [tool, args] of callsOf({ ...one, path })) {
          const problem = yield* problemOf({ ...one, path }, { way, tool, args, decide, call }, place)
          if (problem !== undefined)
            problems.push(`${way}: ${tool} ${JSON.stringify(one.path)} (${one.why}): ${problem}`)
        }
      }
    }
    return problems
  }).pipe(Effect.scoped)

const problemOf = Effect.fnUntraced(function* (
  { expect, op, path, why }: PathCase,
  {
    args,
    call,
    decide,
    tool,
    way
  }: Pick<Deciding, "decide"> & {
    readonly way: string
    readonly tool: string
    readonly args: object
    readonly call: Call
  },
  { outside, root, top }: Workspace
) {
  const before = JSON.stringify(outside())
  const { asked, outcome, result } = yield* call(tool, args, { decide })
  if (JSON.stringify(outside()) !== before) return "changed the outside"
  if (`${result} ${asked?.preview ?? ""}`.includes(secret)) return "showed the outside"
  if (result.includes(join(top, "out")) && !path.includes(join(top, "out"))) return "named another path"
  const isDone = outcome === "completed"
  // An edit of a file that does not have the text, a directory that is read as a file, and a file that is listed fail in words.
  if (expect === "allow") {
    if (tool === "write_file") {
      if (way === "held") return asked === undefined ? "did not ask" : undefined
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
})

describe("file tools in a directory of this machine", () => {
  it.live("let no listed path out of the workspace, and refuse none that stays in it", () =>
    Effect.map(problemsOf(listed, onMachine, ["held", "policy all", "approved"]), (problems) =>
      assert.deepStrictEqual(problems, [])
    )
  )
  it.live("let no path of our own list out, and refuse none that stays in it", () =>
    Effect.map(problemsOf(ownPaths, onMachine, ["policy all", "approved"]), (problems) =>
      assert.deepStrictEqual(problems, [])
    )
  )
})

describe("file tools in a sandbox", () => {
  it.live("let no listed path out of the workspace, and refuse none that stays in it", () =>
    Effect.map(problemsOf(listed, inSandbox, ["policy all", "approved"]), (problems) =>
      assert.deepStrictEqual(problems, [])
    )
  )
})
