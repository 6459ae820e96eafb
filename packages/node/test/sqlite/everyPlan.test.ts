import { DatabaseSync } from "node:sqlite"
import { assert, describe, it } from "@effect/vitest"
import { agent, approve } from "@fermata/node"
import { doing, ops, programs } from "../authority/programs.ts"
import { planOf, recording } from "./statements.ts"

/** Whether a step scans a whole table, rather than an index or a query's own result. */
const isWhole = (step: string): boolean =>
  /^SCAN (?!chain$|line$|ready$|listed$|named$|names$|\(subquery-\d+\)$|CONSTANT)\S+$/.test(step)

describe("the operations on one run", () => {
  it("scan no table and build no automatic index", async () => {
    const deploy = { calls: [{ tool: "deploy" }] }
    await using p = programs(({ messages }) => (messages.at(-1)?.role === "user" ? deploy : "done"))
    await using copies = programs(["done"])
    const fermata = await p.open(ops(doing(p.ran, "deploy")))
    const other = await copies.open([agent("ops", {})])
    const statements = await recording(async () => {
      const held = await fermata.runPrompt("ops", "deploy", { sessionId: "s", runId: "run-1" })
      if (held.status !== "interrupted") return assert.fail(held.status)
      await fermata.send("run-1", "And be quick.")
      const grant = { scope: "session", arguments: {} } as const
      const [first] = await fermata.pending({ runId: "run-1" })
      await fermata.decide(first!, approve({ grant }))
      await fermata.resume("run-1")
      await fermata.runPrompt("ops", "deploy", { sessionId: "s", runId: "run-2" })
      await fermata.fork("run-1", "deploy", { newRunId: "fork-1" })
      const [given] = await fermata.grants({ runId: "run-1" })
      await fermata.revokeGrant("run-1", given!.grant.id)
      const again = await fermata.runPrompt("ops", "deploy", { sessionId: "s", runId: "run-3" })
      assert.strictEqual(again.status, "interrupted")
      await fermata.explain("run-3")
      await fermata.result("run-3")
      await fermata.messages("s")
      await fermata.checkResume("run-3")
      await fermata.cancel("run-3")
      await fermata.resume("run-3")
      await fermata.recover()
      await fermata.state("run-2")
      await fermata.rewindPoints("run-2")
      for await (const update of fermata.events("run-2")) void update
      const archive = await fermata.exportRun("run-3")
      await other.importRun(archive)
      await fermata.remove("fork-1")
      await fermata.prune({ endedBefore: 1 })
    })
    assert.isAbove(statements.size, 40)
    using database = new DatabaseSync(p.file)
    const whole = [...statements].flatMap((statement) =>
      planOf(database, statement)
        .filter((step) => /AUTOMATIC/.test(step) || isWhole(step))
        .map((step) => `${step} <- ${statement}`)
    )
    assert.deepStrictEqual(whole, [])
  })
})
