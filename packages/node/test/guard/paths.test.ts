import * as Fs from "node:fs"
import { join } from "node:path"
import { assert, describe, it } from "@effect/vitest"
import { PathGuard } from "@fermata/node"
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import { guardOf } from "../../src/guard/internal/guarded.ts"
import { parseRules } from "../../src/guard/internal/pathRules.ts"
import { ownPaths, type PathCase } from "./pathCases.ts"
import { secret, type Workspace, workspace } from "./workspace.ts"

const listed = Fs.readFileSync(join(import.meta.dirname, "../fixtures/security/paths.jsonl"), "utf8")
  .trim()
  .split("\n")
  .map((line) => JSON.parse(line) as PathCase)

const written = "written by the test"

/** Uses every path in one workspace. Returns what is wrong. */
const problemsOf = (cases: ReadonlyArray<PathCase>, byDescriptor: boolean) =>
  Effect.gen(function* () {
    const place = yield* workspace
    const rules: PathGuard.Rules = { write: [place.root], own: [join(place.root, "fermata.db")] }
    const guard = byDescriptor ? PathGuard.make(rules) : guardOf({ rules: parseRules(rules), byDescriptor })
    const problems: Array<string> = []
    for (const one of cases) {
      const problem = yield* problemOf(one, guard, place)
      if (problem !== undefined)
        problems.push(`${one.op} ${JSON.stringify(one.path)} (${one.why}): ${problem}`)
    }
    return problems
  }).pipe(Effect.scoped)

const problemOf = Effect.fnUntraced(function* (
  { expect, op, path: name }: PathCase,
  guard: PathGuard.PathGuard,
  { outside, root, top }: Workspace
) {
  const path = name.replaceAll("/tmp/pt", top)
  const before = JSON.stringify(outside())
  const { decision } = yield* guard.judge(path, op)
  const outcome = yield* Effect.result(op === "read" ? guard.readFile(path) : guard.writeFile(path, written))
  if (JSON.stringify(outside()) !== before) return "changed the outside"
  if (Result.isSuccess(outcome)) {
    const content: unknown = outcome.success
    if (content instanceof Uint8Array && new TextDecoder().decode(content).includes(secret))
      return "read the outside"
    if (expect === "deny" || expect === "ask") return "done"
    const literal = join(root, path.startsWith(root) ? path.slice(root.length) : path)
    return op === "write" && Fs.readFileSync(literal, "utf8") !== written ? "not written there" : undefined
  }
  const { failure } = outcome
  if (failure.path !== path || failure.message.includes(join(top, "out")) !== path.includes(join(top, "out")))
    return "names another path"
  if (expect === "allow") return failure.message
  // A path that the file system refuses needs no question.
  const gated = failure._tag === "FileError" ? ["allow"] : expect === "ask" ? ["ask"] : ["ask", "deny"]
  return gated.includes(decision) ||
    (decision === "allow" && failure._tag === "PathDenied" && failure.reason === "tooLarge")
    ? undefined
    : `judged ${decision}`
})

describe.each([
  ["open directories", true],
  ["paths alone", false]
] as const)("PathGuard with %s", (_, byDescriptor) => {
  it.effect("lets no listed path out of the workspace, and refuses none that stays in it", () =>
    Effect.map(problemsOf(listed, byDescriptor), (problems) => assert.deepStrictEqual(problems, []))
  )
  it.effect("judges the paths of our own list", () =>
    Effect.map(problemsOf(ownPaths, byDescriptor), (problems) => assert.deepStrictEqual(problems, []))
  )
})
