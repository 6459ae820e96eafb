import { assert, describe, it } from "@effect/vitest"
import { agent, approve } from "@fermata/node"
import { doing, type Fermata, programs, refusal } from "./programs.ts"

const anyRefund = { scope: "session", arguments: {} } as const

/** Refunds once for each prompt, after a handoff to the agent that the prompt names. */
const refunding = () =>
  programs(({ messages }) => {
    const last = messages.at(-1)
    const said = JSON.stringify(last)
    const to = /hand to (\w+)/.exec(said)?.[1]
    if (last?.role === "user" && to !== undefined) return { calls: [{ tool: `transfer_to_${to}` }] }
    if (last?.role === "user" || said.includes("has the conversation")) return { calls: [{ tool: "refund" }] }
    return "done"
  })

const refund = (ran: Array<string>, whose: string) =>
  doing(ran, "refund", { handler: () => (ran.push(`refund of ${whose}`), "done") })

const approveFirst = async (fermata: Fermata, runId: string, grant?: typeof anyRefund) => {
  const [open] = await fermata.pending({ runId })
  await fermata.decide(open!, grant === undefined ? approve() : approve({ grant }))
}

describe("an alias of an agent", () => {
  it("does not lead an approved call to an agent that existed beside the one that made it", async () => {
    await using p = refunding()
    const billing = agent("billing", { tools: [refund(p.ran, "billing")] })
    const before = await p.open([agent("desk", { tools: [refund(p.ran, "desk")], handoffs: [billing] })])
    await before.runPrompt("desk", "hand to billing", { runId: "run-1" })
    await approveFirst(before, "run-1")
    await before.close()
    const after = await p.open([agent("desk", { tools: [refund(p.ran, "desk")], aliases: ["billing"] })])
    const { blocking } = await after.checkResume("run-1")
    assert.deepInclude(blocking[0], { _tag: "AgentNotFound", agent: "billing", answeredBy: "desk" })
    assert.include(blocking[0]?.message, "both agents existed when the run was stored")
    assert.strictEqual((await refusal(after.resume("run-1")))._tag, "AgentNotFound")
    assert.deepStrictEqual(p.ran, [])
    // The agent comes back, and the approval is acted on.
    const again = await p.open([agent("desk", { handoffs: [billing] })])
    assert.strictEqual((await again.resume("run-1")).status, "completed")
    assert.deepStrictEqual(p.ran, ["refund of billing"])
  })

  for (const [name, agents] of [
    ["that the program also offers", ["desk", "billing"]],
    ["that it could hand off to", ["desk", "desk > billing"]]
  ] as const) {
    it(`does not lead to another agent ${name}`, async () => {
      await using p = refunding()
      const billing = agent("billing", { tools: [refund(p.ran, "billing")] })
      const tools = [refund(p.ran, "desk")]
      const before = await p.open(
        agents[1] === "billing"
          ? [agent("desk", { tools }), billing]
          : [agent("desk", { tools, handoffs: [billing] })]
      )
      await before.runPrompt("desk", "refund", { runId: "run-1" })
      await approveFirst(before, "run-1")
      await before.close()
      const after = await p.open([agent("billing", { tools: [refund(p.ran, "billing")], aliases: ["desk"] })])
      assert.deepInclude((await after.checkResume("run-1")).blocking[0], { agent: "desk" })
      assert.strictEqual((await refusal(after.resume("run-1")))._tag, "AgentNotFound")
      assert.deepStrictEqual(p.ran, [])
    })
  }

  it("does not lead to another agent that was renamed as well", async () => {
    await using p = refunding()
    const billing = agent("billing", { tools: [refund(p.ran, "billing")] })
    const before = await p.open([agent("desk", { tools: [refund(p.ran, "desk")], handoffs: [billing] })])
    await before.runPrompt("desk", "refund", { runId: "run-1" })
    await approveFirst(before, "run-1")
    await before.close()
    const tools = [refund(p.ran, "billing")]
    const after = await p.open([agent("payments", { tools, aliases: ["billing", "desk"] })])
    assert.strictEqual((await refusal(after.resume("run-1")))._tag, "AgentNotFound")
    assert.deepStrictEqual(p.ran, [])
  })

  it("leads an approved call to the agent that was renamed, beside agents that keep their names", async () => {
    await using p = refunding()
    const billing = agent("billing", { tools: [refund(p.ran, "billing")] })
    const before = await p.open([agent("desk", { tools: [refund(p.ran, "desk")], handoffs: [billing] })])
    await before.runPrompt("desk", "refund", { runId: "run-1" })
    await approveFirst(before, "run-1")
    await before.close()
    const tools = [refund(p.ran, "front")]
    const after = await p.open([agent("front", { tools, handoffs: [billing], aliases: ["desk"] })])
    assert.deepStrictEqual((await after.checkResume("run-1")).blocking, [])
    assert.strictEqual((await after.resume("run-1")).status, "completed")
    assert.deepStrictEqual(p.ran, ["refund of front"])
  })

  it("does not apply the caller's policy for the prompted agent to another agent", async () => {
    await using p = refunding()
    const billing = agent("billing", { tools: [refund(p.ran, "billing")] })
    const before = await p.open([agent("desk", { handoffs: [billing] })])
    await before.runPrompt("desk", "refund", { runId: "run-1", policy: { mode: "all" } })
    await before.close()
    const tools = [refund(p.ran, "billing")]
    const after = await p.open([agent("billing", { tools, aliases: ["desk"] })])
    const fork = await after.fork("run-1", "refund", { agent: "billing", answeredBy: "billing" })
    assert.strictEqual(fork.status, "interrupted")
    assert.deepStrictEqual(p.ran, [])
  })
})

describe("a grant", () => {
  const granted = async (p: ReturnType<typeof refunding>) => {
    const billing = agent("billing", { tools: [refund(p.ran, "billing")] })
    const before = await p.open([agent("desk", { tools: [refund(p.ran, "desk")], handoffs: [billing] })])
    await before.runPrompt("desk", "refund", { runId: "run-1", sessionId: "s" })
    await approveFirst(before, "run-1", anyRefund)
    await before.resume("run-1")
    await before.close()
    p.ran.length = 0
    return billing
  }

  it("of an agent that was renamed with an alias covers its calls under the new name", async () => {
    await using p = refunding()
    const billing = await granted(p)
    const tools = [refund(p.ran, "front")]
    const after = await p.open([agent("front", { tools, handoffs: [billing], aliases: ["desk"] })])
    const run = await after.runPrompt("front", "refund", { sessionId: "s" })
    assert.strictEqual(run.status, "completed")
    assert.deepStrictEqual(p.ran, ["refund of front"])
  })

  it("does not cover the calls of an agent that existed before and takes the name as an alias", async () => {
    await using p = refunding()
    await granted(p)
    const after = await p.open([agent("billing", { tools: [refund(p.ran, "billing")], aliases: ["desk"] })])
    const run = await after.runPrompt("billing", "refund", { sessionId: "s", answeredBy: "billing" })
    assert.strictEqual(run.status, "interrupted")
    assert.deepStrictEqual(p.ran, [])
  })

  it("with `inherit` covers the sub-agents of its agent after a rename with an alias", async () => {
    await using p = programs(({ messages }) => {
      const last = JSON.stringify(messages.at(-1))
      if (messages.at(-1)?.role !== "user") return "done"
      if (last.includes("own") || last.includes("inner")) return { calls: [{ tool: "refund" }] }
      return { calls: [{ tool: "helper", arguments: { prompt: "inner" } }] }
    })
    const lead = (name: string, aliases: ReadonlyArray<string>) => {
      const helper = agent("helper", { tools: [refund(p.ran, "helper")] })
      return agent(name, { tools: [refund(p.ran, "lead")], subAgents: [helper], aliases })
    }
    const before = await p.open([lead("lead", [])])
    await before.runPrompt("lead", "own", { runId: "run-1", sessionId: "s" })
    const [open] = await before.pending()
    await before.decide(open!, approve({ grant: { ...anyRefund, inherit: true } }))
    await before.resume("run-1")
    await before.close()
    const after = await p.open([lead("chief", ["lead"])])
    assert.strictEqual((await after.runPrompt("chief", "below", { sessionId: "s" })).status, "completed")
    assert.deepStrictEqual(p.ran, ["refund of lead", "refund of helper"])
  })
})

describe("an approved call of a background sub-agent", () => {
  /** desk starts its publisher, then hands off to billing. */
  const publishing = () =>
    programs(({ messages }) => {
      const last = messages.at(-1)
      const said = JSON.stringify(last)
      if (said.includes("inner")) return { calls: [{ tool: "publish" }] }
      if (said.includes("start it")) {
        const work = { agent: "publisher", prompt: "inner", background: true }
        return { calls: [{ tool: "delegate", arguments: work }, { tool: "transfer_to_billing" }] }
      }
      return "done"
    })
  const publish = (ran: Array<string>, whose: string) =>
    doing(ran, "publish", { handler: () => (ran.push(`publish of ${whose}`), "done") })
  const withPublisher = (
    p: ReturnType<typeof programs>,
    name: string,
    whose: string,
    options: { readonly aliases?: ReadonlyArray<string>; readonly called?: string; readonly was?: string }
  ) => {
    const { aliases = [], called = "publisher", was } = options
    const publisher = agent(called, {
      tools: [publish(p.ran, whose)],
      aliases: was === undefined ? [] : [was]
    })
    return { delegation: "delegate", subAgents: [publisher], aliases } as const
  }

  const held = async (
    p: ReturnType<typeof programs>,
    more: ReturnType<typeof withPublisher>["subAgents"] | readonly [] = []
  ) => {
    const billing = agent("billing", withPublisher(p, "billing", "billing", {}))
    const { subAgents, ...desk } = withPublisher(p, "desk", "desk", {})
    const before = await p.open([
      agent("desk", { ...desk, subAgents: [...subAgents, ...more], handoffs: [billing] })
    ])
    await before.runPrompt("desk", "start it", { runId: "run-1" })
    await approveFirst(before, "run-1")
    await before.close()
    return billing
  }

  it("does not run in the sub-agent of another agent that takes its starter's name as an alias", async () => {
    await using p = publishing()
    await held(p)
    const after = await p.open([
      agent("billing", withPublisher(p, "billing", "billing", { aliases: ["desk"] }))
    ])
    const { blocking } = await after.checkResume("run-1")
    assert.deepInclude(blocking[0], { agent: "desk", startedBy: "desk", answeredBy: "billing" })
    await after.resume("run-1").catch(() => undefined)
    assert.deepStrictEqual(p.ran, [])
  })

  it("does not run in another sub-agent of its starter that takes its sub-agent's name as an alias", async () => {
    await using p = publishing()
    const editor = (aliases: ReadonlyArray<string>) =>
      agent("editor", { tools: [publish(p.ran, "editor")], aliases })
    const billing = await held(p, [editor([])])
    const after = await p.open([
      agent("desk", {
        delegation: "delegate",
        subAgents: [editor(["publisher"])],
        handoffs: [billing]
      })
    ])
    const { blocking } = await after.checkResume("run-1")
    assert.deepInclude(blocking[0], { agent: "publisher", startedBy: "desk", answeredBy: "editor" })
    await after.resume("run-1").catch(() => undefined)
    assert.deepStrictEqual(p.ran, [])
  })

  it("runs after its sub-agent and the starter were renamed with aliases", async () => {
    await using p = publishing()
    const billing = await held(p)
    const front = withPublisher(p, "front", "front", {
      aliases: ["desk"],
      called: "author",
      was: "publisher"
    })
    const after = await p.open([agent("front", { ...front, handoffs: [billing] })])
    assert.deepStrictEqual((await after.checkResume("run-1")).blocking, [])
    assert.strictEqual((await after.resume("run-1")).status, "completed")
    assert.deepStrictEqual(p.ran, ["publish of front"])
  })
})
