import { assert, describe, it } from "@effect/vitest"
import { agent, approve, deny, isRunExists, tool } from "@fermata/node"
import { afterEach, vi } from "vitest"
import { doing, ops, programs, refusal } from "./programs.ts"

// Some tests set the time.
afterEach(() => {
  vi.useRealTimers()
})

const anyDeploy = { scope: "session", arguments: {} } as const

/** Deploys once for each prompt. */
const deploying = () =>
  programs(({ messages }) => (messages.at(-1)?.role === "user" ? { calls: [{ tool: "deploy" }] } : "done"))

/** A run that has deployed after an approval with a grant for the whole session. */
const granted = async (p: ReturnType<typeof programs>) => {
  const fermata = await p.open(ops(doing(p.ran, "deploy")))
  const one = await fermata.runPrompt("ops", "deploy", { sessionId: "s", runId: "run-1" })
  if (one.status !== "interrupted") return assert.fail(one.status)
  await fermata.decide(one.interruptions[0]!, approve({ grant: anyDeploy }))
  const done = await fermata.resume("run-1")
  assert.strictEqual(done.status, "completed")
  return { fermata, grantId: done.state.grants[0]!.id }
}

describe("a grant for a session", () => {
  it("is not in force in later runs of the session after its revocation", async () => {
    await using p = deploying()
    const { fermata, grantId } = await granted(p)
    const two = await fermata.runPrompt("ops", "deploy", { sessionId: "s", runId: "run-2" })
    assert.strictEqual(two.status, "completed")
    const revoked = await fermata.revokeGrant("run-1", grantId, { by: "ben" })
    assert.deepInclude(revoked.grant.revoked, { by: "ben" })
    const three = await fermata.runPrompt("ops", "deploy", { sessionId: "s", runId: "run-3" })
    if (three.status !== "interrupted") return assert.fail(three.status)
    assert.lengthOf(p.ran, 2)
    const [request] = three.interruptions
    assert.include(request?._tag === "approval" ? request.reason : "", "was revoked by ben")
    // The journal of the later run records the revocation.
    assert.deepInclude(three.state.grants[0]?.revoked, { by: "ben" })
  })

  it("is not in force in a fork from before its revocation by another process", async () => {
    await using p = deploying()
    const { fermata, grantId } = await granted(p)
    const before = (await fermata.rewindPoints("run-1")).at(-1)!.revision
    const other = await p.open(ops(doing(p.ran, "deploy")))
    await other.revokeGrant("run-1", grantId, { by: "ben" })
    const fork = await fermata.fork("run-1", "deploy", { revision: before, newRunId: "fork-1" })
    assert.strictEqual(fork.status, "interrupted")
    assert.lengthOf(p.ran, 1)
  })

  it("can be revoked through a fork, which revokes it in the original session, too", async () => {
    await using p = deploying()
    const { fermata, grantId } = await granted(p)
    const before = (await fermata.rewindPoints("run-1")).at(-1)!.revision
    const fork = await fermata.fork("run-1", "deploy", { revision: before, newRunId: "fork-1" })
    assert.strictEqual(fork.status, "completed")
    await fermata.revokeGrant("fork-1", grantId)
    const two = await fermata.runPrompt("ops", "deploy", { sessionId: "s" })
    assert.strictEqual(two.status, "interrupted")
    assert.lengthOf(p.ran, 2)
  })

  it("can be revoked before its run acts on the approval that gave it", async () => {
    await using p = programs([
      { calls: [{ tool: "deploy" }, { tool: "deploy" }] },
      { calls: [{ tool: "deploy" }] },
      "done"
    ])
    const fermata = await p.open(ops(doing(p.ran, "deploy")))
    const one = await fermata.runPrompt("ops", "deploy", { runId: "run-1" })
    if (one.status !== "interrupted") return assert.fail(one.status)
    await fermata.decide(one.interruptions[0]!, approve({ grant: anyDeploy }))
    await fermata.decide(one.interruptions[1]!, approve())
    const [given] = await fermata.grants()
    await fermata.revokeGrant("run-1", given!.grant.id)
    const two = await fermata.resume("run-1")
    assert.strictEqual(two.status, "interrupted")
    assert.lengthOf(p.ran, 2)
  })

  it("stays revoked when its run is removed and imported again", async () => {
    await using p = deploying()
    const { fermata, grantId } = await granted(p)
    const archive = await fermata.exportRun("run-1")
    await fermata.revokeGrant("run-1", grantId)
    await fermata.remove("run-1")
    await fermata.importRun(archive)
    const two = await fermata.runPrompt("ops", "deploy", { sessionId: "s" })
    assert.strictEqual(two.status, "interrupted")
    assert.lengthOf(p.ran, 1)
  })

  it("stays revoked in another store that imports its run", async () => {
    await using p = deploying()
    const { fermata, grantId } = await granted(p)
    await fermata.revokeGrant("run-1", grantId, { by: "ben" })
    await using elsewhere = deploying()
    const other = await elsewhere.open(ops(doing(elsewhere.ran, "deploy")))
    await other.importRun(JSON.parse(JSON.stringify(await fermata.exportRun("run-1"))))
    const two = await other.runPrompt("ops", "deploy", { sessionId: "s" })
    assert.strictEqual(two.status, "interrupted")
    assert.deepStrictEqual(elsewhere.ran, [])
    assert.deepInclude((await other.grants())[0]?.grant.revoked, { by: "ben" })
  })

  it("is listed as revoked when its run is imported after its removal, and stays so in the next archive", async () => {
    await using p = deploying()
    const { fermata, grantId } = await granted(p)
    const archive = await fermata.exportRun("run-1")
    await fermata.revokeGrant("run-1", grantId, { by: "ben" })
    await fermata.remove("run-1")
    await fermata.importRun(archive)
    const [listed] = await fermata.grants()
    assert.deepInclude(listed?.grant.revoked, { by: "a run that was deleted" })
    const again = await fermata.exportRun("run-1")
    await using elsewhere = deploying()
    const other = await elsewhere.open(ops(doing(elsewhere.ran, "deploy")))
    await other.importRun(JSON.parse(JSON.stringify(again)))
    const two = await other.runPrompt("ops", "deploy", { sessionId: "s" })
    assert.strictEqual(two.status, "interrupted")
    assert.deepStrictEqual(elsewhere.ran, [])
  })

  it("is not in force in a fork of an imported run whose journal alone records its revocation", async () => {
    await using p = deploying()
    const { fermata, grantId } = await granted(p)
    await fermata.runPrompt("ops", "deploy", { sessionId: "s", runId: "run-2" })
    const before = (await fermata.rewindPoints("run-2")).at(-1)!.revision
    await fermata.revokeGrant("run-1", grantId, { by: "ben" })
    await fermata.runPrompt("ops", "deploy", { sessionId: "s", runId: "run-3" })
    const { revoked: _, ...older } = await fermata.exportRun("run-3")
    await using elsewhere = deploying()
    const other = await elsewhere.open(ops(doing(elsewhere.ran, "deploy")))
    await other.importRun(JSON.parse(JSON.stringify(older)))
    const fork = await other.fork("run-2", "deploy", { revision: before })
    assert.strictEqual(fork.status, "interrupted")
    assert.deepStrictEqual(elsewhere.ran, [])
    assert.deepInclude((await other.grants())[0]?.grant.revoked, { by: "ben" })
  })

  it("is not revoked by a forged archive of another run", async () => {
    await using p = deploying()
    const { fermata, grantId } = await granted(p)
    const other = await fermata.runPrompt("ops", "deploy", { sessionId: "o", runId: "other" })
    if (other.status !== "interrupted") return assert.fail(other.status)
    await fermata.decide(other.interruptions[0]!, approve({ grant: anyDeploy }))
    const { state } = await fermata.resume("other")
    await fermata.revokeGrant("other", state.grants[0]!.id)
    const archive = await fermata.exportRun("other")
    const forged = JSON.parse(
      JSON.stringify(archive).replaceAll(`"id":"${state.grants[0]!.id}"`, `"id":"${grantId}"`)
    )
    assert.strictEqual((await refusal(fermata.importRun(forged)))._tag, "ArchiveInvalid")
    const [first] = await fermata.grants({ runId: "run-1" })
    assert.isUndefined(first?.grant.revoked)
    const two = await fermata.runPrompt("ops", "deploy", { sessionId: "s" })
    assert.strictEqual(two.status, "completed")
  })

  for (const isWorkedOn of [false, true]) {
    const where = isWorkedOn ? "that has gone on by itself" : "that has not been resumed"
    it(`is revoked by the next archive in a copy of its run ${where}`, async () => {
      await using p = deploying()
      const fermata = await p.open(ops(doing(p.ran, "deploy")))
      const one = await fermata.runPrompt("ops", "deploy", { sessionId: "s", runId: "run-1" })
      if (one.status !== "interrupted") return assert.fail(one.status)
      await fermata.decide(one.interruptions[0]!, approve({ grant: anyDeploy }))
      const moved = async () => JSON.parse(JSON.stringify(await fermata.exportRun("run-1")))
      await using elsewhere = deploying()
      const other = await elsewhere.open(ops(doing(elsewhere.ran, "deploy")))
      await other.importRun(await moved())
      if (isWorkedOn) await other.resume("run-1")
      await fermata.resume("run-1")
      const [given] = await fermata.grants()
      await fermata.revokeGrant("run-1", given!.grant.id, { by: "ben" })
      const imported = other.importRun(await moved())
      if (isWorkedOn) {
        const error = await refusal(imported)
        assert.isTrue(isRunExists(error))
        assert.deepInclude(error as object, { archive: "apart", revoked: [given!.grant.id] })
        assert.include(error.message, "1 is revoked here now")
      } else assert.strictEqual(await imported, "run-1")
      elsewhere.ran.length = 0
      const next = await other.runPrompt("ops", "deploy", { sessionId: "s" })
      assert.strictEqual(next.status, "interrupted")
      assert.deepStrictEqual(elsewhere.ran, [])
      assert.deepInclude((await other.grants())[0]?.grant.revoked, { by: "ben" })
    })
  }

  for (const store of ["file", "memory"] as const) {
    it(`is in force and listed although a removed run of the same id had a revoked one (${store})`, async () => {
      await using p = programs(({ messages }) =>
        messages.filter(({ role }) => role === "tool").length < 2 ? { calls: [{ tool: "deploy" }] } : "done"
      )
      const file = store === "file" ? {} : { store: ":memory:" }
      const fermata = await p.open(ops(doing(p.ran, "deploy")), file)
      for (const sessionId of ["s1", "s2"]) {
        p.ran.length = 0
        const one = await fermata.runPrompt("ops", "deploy", { runId: "daily", sessionId })
        if (one.status !== "interrupted") return assert.fail(one.status)
        await fermata.decide(one.interruptions[0]!, approve({ grant: anyDeploy }))
        const done = await fermata.resume("daily")
        assert.strictEqual(done.status, "completed")
        assert.lengthOf(p.ran, 2)
        const [only, ...others] = await fermata.grants()
        assert.lengthOf(others, 0)
        assert.isUndefined(only?.grant.revoked)
        if (sessionId === "s2") return
        await fermata.revokeGrant("daily", only!.grant.id)
        await fermata.remove("daily")
        // The two grants get different times.
        const { at } = only!.grant
        while (Date.now() <= at) await Promise.resolve()
      }
    })
  }

  it("is listed with its tool, agent, giver and revocation", async () => {
    await using p = deploying()
    const { fermata, grantId } = await granted(p)
    const by = { id: "u-7", kind: "person", authenticated: "oidc" } as const
    await fermata.revokeGrant("run-1", grantId, { by })
    const [only, ...others] = await fermata.grants({ sessionId: "s" as never })
    assert.lengthOf(others, 0)
    assert.deepInclude(only?.grant, { tool: "deploy", agent: "ops", scope: "session", by: "ana" })
    assert.deepInclude(only?.grant.revoked, { by: "u-7", principal: by })
    assert.lengthOf(await fermata.grants({ tool: "erase" }), 0)
    assert.deepInclude((await fermata.state("run-1")).grants[0]?.revoked, { by: "u-7" })
  })
})

describe("a grant on a sub-agent's request", () => {
  it("is refused for the session, with the reason, and leaves the request open for a grant for the run", async () => {
    await using p = programs(({ messages }) => {
      const last = messages.at(-1)
      if (last?.role !== "user") {
        const isInner = JSON.stringify(messages).includes("inner") && messages.length < 4
        return isInner ? { calls: [{ tool: "deploy" }] } : "done"
      }
      return JSON.stringify(last).includes("inner")
        ? { calls: [{ tool: "deploy" }] }
        : { calls: [{ tool: "helper", arguments: { prompt: "inner" } }] }
    })
    const helper = agent("helper", { tools: [doing(p.ran, "deploy")] })
    const fermata = await p.open([agent("lead", { subAgents: [helper] })])
    await fermata.runPrompt("lead", "go", { runId: "run-1" })
    const [open] = await fermata.pending()
    const refused = await refusal(fermata.decide(open!, approve({ grant: anyDeploy })))
    assert.strictEqual(refused._tag, "GrantRefused")
    assert.include(refused.message, "would not reach the sub-agents of later runs: grant it for the run")
    assert.lengthOf(await fermata.pending(), 1)
    await fermata.decide(open!, approve({ grant: { scope: "run", arguments: {} } }))
    assert.strictEqual((await fermata.resume("run-1")).status, "completed")
    assert.deepStrictEqual(p.ran, ["deploy", "deploy"])
  })
})

describe("revoking a grant", () => {
  it("is refused for a grant that neither the run nor its session has", async () => {
    await using p = deploying()
    const { fermata, grantId } = await granted(p)
    const nope = await refusal(fermata.revokeGrant("run-1", "nope"))
    assert.strictEqual(nope._tag, "GrantNotFound")
    assert.include(nope.message, "list the grants")
    const other = await fermata.runPrompt("ops", "deploy", { sessionId: "other", runId: "run-o" })
    assert.strictEqual(other.status, "interrupted")
    assert.strictEqual((await refusal(fermata.revokeGrant("run-o", grantId)))._tag, "GrantNotFound")
    assert.strictEqual((await refusal(fermata.revokeGrant("run-9", grantId)))._tag, "RunNotFound")
    assert.isUndefined((await fermata.grants())[0]?.grant.revoked)
  })

  it("keeps the first revocation and returns it to a second caller", async () => {
    await using p = deploying()
    const { fermata, grantId } = await granted(p)
    await fermata.revokeGrant("run-1", grantId, { by: "ben" })
    const again = await fermata.revokeGrant("run-1", grantId, { by: "cy" })
    assert.deepInclude(again.grant.revoked, { by: "ben" })
  })

  it("in another process holds the call that waits behind a running one", async () => {
    const slow = Promise.withResolvers<string>()
    const begun = Promise.withResolvers<void>()
    await using p = programs([
      { calls: [{ tool: "deploy" }] },
      { calls: [{ tool: "wait" }, { tool: "deploy" }] },
      "done"
    ])
    const wait = tool("wait", {
      needsApproval: false,
      handler: () => {
        begun.resolve()
        return slow.promise
      }
    })
    const fermata = await p.open(ops(doing(p.ran, "deploy"), wait))
    const one = await fermata.runPrompt("ops", "deploy", { runId: "run-1" })
    if (one.status !== "interrupted") return assert.fail(one.status)
    await fermata.decide(one.interruptions[0]!, approve({ grant: { scope: "run", arguments: {} } }))
    const going = fermata.resume("run-1")
    await begun.promise
    const other = await p.open(ops(doing(p.ran, "deploy"), wait))
    const [given] = await other.grants({ runId: "run-1" as never })
    await other.revokeGrant("run-1", given!.grant.id, { by: "ben" })
    slow.resolve("waited")
    const two = await going
    if (two.status !== "interrupted") return assert.fail(two.status)
    assert.deepStrictEqual(p.ran, ["deploy"])
    const [request] = two.interruptions
    assert.include(request?._tag === "approval" ? request.reason : "", "was revoked by ben")
  })
})

describe("a granted call that waits behind an undecided one", () => {
  const script = [{ calls: [{ tool: "deploy" }] }, { calls: [{ tool: "erase" }, { tool: "deploy" }] }, "done"]
  const waiting = async (p: ReturnType<typeof programs>, grant: object) => {
    const fermata = await p.open(ops(doing(p.ran, "deploy"), doing(p.ran, "erase", { safety: "privileged" })))
    const one = await fermata.runPrompt("ops", "go", { runId: "r" })
    if (one.status !== "interrupted") return assert.fail(one.status)
    await fermata.decide(one.interruptions[0]!, approve({ grant: { scope: "run", arguments: {}, ...grant } }))
    const two = await fermata.resume("r")
    if (two.status !== "interrupted") return assert.fail(two.status)
    assert.deepStrictEqual(p.ran, ["deploy"])
    return { fermata, erase: two.interruptions[0]!, grantId: two.state.grants[0]!.id }
  }

  it("opens a request when the grant was revoked meanwhile", async () => {
    await using p = programs(script)
    const { erase, fermata, grantId } = await waiting(p, {})
    await fermata.revokeGrant("r", grantId, { by: "ben" })
    await fermata.decide(erase, deny("no"))
    const three = await fermata.resume("r")
    if (three.status !== "interrupted") return assert.fail(three.status)
    assert.deepStrictEqual(p.ran, ["deploy"])
    await fermata.decide(three.interruptions[0]!, approve())
    assert.strictEqual((await fermata.resume("r")).status, "completed")
    assert.deepStrictEqual(p.ran, ["deploy", "deploy"])
  })

  it("opens a request when the grant has expired meanwhile", async () => {
    await using p = programs(script)
    vi.useFakeTimers({ toFake: ["Date"] })
    const expiresAt = Date.now() + 1000
    const { erase, fermata } = await waiting(p, { expiresAt })
    await fermata.decide(erase, deny("no"))
    vi.setSystemTime(expiresAt)
    const three = await fermata.resume("r")
    if (three.status !== "interrupted") return assert.fail(three.status)
    const [request] = three.interruptions
    assert.include(request?._tag === "approval" ? request.reason : "", "has expired")
    assert.deepStrictEqual(p.ran, ["deploy"])
  })

  it("runs when the grant is still in force", async () => {
    await using p = programs(script)
    const { erase, fermata } = await waiting(p, {})
    await fermata.decide(erase, deny("no"))
    assert.strictEqual((await fermata.resume("r")).status, "completed")
    assert.deepStrictEqual(p.ran, ["deploy", "deploy"])
  })
})

describe("a grant for one agent's tool", () => {
  it("does not cover another agent's tool of the same name after a handoff", async () => {
    await using p = programs([
      { calls: [{ tool: "refund" }] },
      { calls: [{ tool: "transfer_to_billing" }] },
      { calls: [{ tool: "refund" }] },
      "done"
    ])
    const billing = agent("billing", {
      tools: [tool("refund", { description: "refunds", handler: () => void p.ran.push("billing") })]
    })
    const desk = agent("desk", {
      tools: [tool("refund", { description: "asks", handler: () => void p.ran.push("desk") })],
      handoffs: [billing]
    })
    const fermata = await p.open([desk])
    const one = await fermata.runPrompt("desk", "go", { runId: "r" })
    if (one.status !== "interrupted") return assert.fail(one.status)
    await fermata.decide(one.interruptions[0]!, approve({ grant: { scope: "run", arguments: {} } }))
    const two = await fermata.resume("r")
    if (two.status !== "interrupted") return assert.fail(two.status)
    assert.deepStrictEqual(p.ran, ["desk"])
    assert.deepStrictEqual(two.interruptions[0]?.agentPath, ["billing"])
  })

  it("covers the tool under its new name, and not another tool that takes the old name as an alias", async () => {
    const pay = { calls: [{ tool: "pay" }] }
    const script = [pay, "done", { calls: [{ tool: "wire" }] }, "done"]
    const wire = (ran: Array<string>, options: object) => doing(ran, "wire", options)
    for (const [before, covered] of [
      [false, true],
      [true, false]
    ] as const) {
      await using p = programs(script)
      const known = before ? [doing(p.ran, "pay"), wire(p.ran, {})] : [doing(p.ran, "pay")]
      const first = await p.open(ops(...known))
      const one = await first.runPrompt("ops", "go", { runId: "r", sessionId: "s" })
      if (one.status !== "interrupted") return assert.fail(one.status)
      await first.decide(one.interruptions[0]!, approve({ grant: anyDeploy }))
      assert.strictEqual((await first.resume("r")).status, "completed")
      const second = await p.open(ops(wire(p.ran, { aliases: ["pay"] })))
      const two = await second.runPrompt("ops", "go", { sessionId: "s" })
      assert.strictEqual(two.status, covered ? "completed" : "interrupted")
      assert.deepStrictEqual(p.ran, covered ? ["pay", "wire"] : ["pay"])
    }
  })

  it("does not cover the tool when its arguments or its safety have changed", async () => {
    for (const change of [{ parameters: { fields: true } }, { safety: "privileged" }] as const) {
      await using p = deploying()
      await granted(p)
      const { z } = await import("zod")
      const options =
        "parameters" in change ? { parameters: z.object({ env: z.string().optional() }) } : change
      const second = await p.open(ops(doing(p.ran, "deploy", options)))
      const two = await second.runPrompt("ops", "deploy", { sessionId: "s" })
      assert.strictEqual(two.status, "interrupted")
      assert.lengthOf(p.ran, 1)
    }
  })
})
