import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { TestClock } from "effect/testing"
import * as Agent from "../../src/agent/Agent.ts"
import type { ApprovalPolicy } from "../../src/domain/ApprovalPolicy.ts"
import type { GrantRequest } from "../../src/domain/Grant.ts"
import type { RunState } from "../../src/domain/RunState.ts"
import { interruptions } from "../../src/domain/RunState.ts"
import { runPrompt } from "../../src/run/runPrompt.ts"
import * as Tool from "../../src/tool/Tool.ts"
import {
  approvalOf,
  approve,
  bind,
  call,
  deny,
  expect,
  only,
  probe,
  results,
  safe,
  throughJson,
  watch
} from "../helpers/Fixture.ts"

/** Runs one call of a tool and returns the run's result. */
const one = (
  tool: Tool.Tool,
  options: Parameters<typeof bind<never, undefined>>[2] & { readonly policy?: ApprovalPolicy } = {}
) =>
  Effect.gen(function* () {
    const { policy, ...more } = options
    const agent = Agent.make("a", { tools: [tool], ...(policy === undefined ? {} : { policy }) })
    const { runtime } = yield* bind(agent, [{ calls: [call(tool.name, "1")] }, "done"], more)
    return yield* runPrompt(runtime, { prompt: "go" })
  })

describe("needsApproval", () => {
  it.effect("applies to every tool that is not read-only, unless the tool overrides it", () =>
    Effect.gen(function* () {
      assert.strictEqual((yield* one(safe().tool)).status, "completed")
      assert.strictEqual((yield* one(probe("write").tool)).status, "interrupted")
      assert.strictEqual((yield* one(probe("drop", { safety: "privileged" }).tool)).status, "interrupted")
      assert.strictEqual((yield* one(probe("write", { needsApproval: false }).tool)).status, "completed")
      assert.strictEqual((yield* one(safe("read", { needsApproval: true }).tool)).status, "interrupted")
    })
  )

  it.effect("accepts a function, a promise or an effect of the decoded arguments and the context", () =>
    Effect.gen(function* () {
      const places: Array<unknown> = []
      for (const wrap of [
        (needed: boolean) => needed,
        (needed: boolean) => Promise.resolve(needed),
        (needed: boolean) => Effect.succeed(needed)
      ]) {
        const { tool, ran } = probe("write", {
          needsApproval: ({ id }, context) => {
            places.push(context.agentPath)
            return wrap(id !== "1")
          }
        })
        const { runtime } = yield* bind(Agent.make("a", { tools: [tool] }), [
          { calls: [call("write", "1"), call("write", "2")] }
        ])
        const held = yield* runPrompt(runtime, { prompt: "go" })
        assert.deepStrictEqual(ran, ["1"])
        assert.deepStrictEqual(only(held, "approval").arguments, { id: "2" })
      }
      assert.deepStrictEqual(
        places,
        Array.from({ length: 6 }, () => ["a"])
      )
    })
  )

  it.effect("asks for approval when the rule fails, and gives the failure as the reason", () =>
    Effect.gen(function* () {
      for (const needsApproval of [
        (): boolean => {
          throw new Error("no")
        },
        () => Promise.reject(new Error("no")),
        () => Effect.die("no"),
        () => Effect.interrupt
      ]) {
        const request = only(yield* one(probe("write", { needsApproval }).tool), "approval")
        assert.include(request.reason, "The approval rule of write failed")
      }
    })
  )
})

describe("a request for approval", () => {
  it.effect("shows the call, its decoded arguments, a digest, the risk and a preview", () =>
    Effect.gen(function* () {
      const { tool } = probe("write", {
        risk: ({ id }) => `overwrites ${id}`,
        preview: ({ id }) => Promise.resolve(`- old\n+ ${id}`)
      })
      const { digest, ...request } = only(yield* one(tool), "approval")
      assert.match(digest, /^[0-9a-f]{64}$/)
      assert.deepInclude(request, {
        tool: "write",
        arguments: { id: "1" },
        safety: "sideEffecting",
        agentPath: ["a"],
        risk: "overwrites 1",
        preview: "- old\n+ 1"
      })
      assert.isTrue(request.requestId.startsWith(request.runId))
    })
  )

  it.effect("omits a risk or a preview whose function fails", () =>
    Effect.gen(function* () {
      const { tool } = probe("write", {
        risk: (): string => {
          throw new Error("no")
        },
        preview: () => Promise.reject(new Error("no"))
      })
      const request = only(yield* one(tool), "approval")
      assert.notProperty(request, "risk")
      assert.notProperty(request, "preview")
    })
  )

  it.effect("omits a risk or a preview that is not text", () =>
    Effect.gen(function* () {
      const none = () => 7 as unknown as string
      const { tool, ran } = probe("write", { risk: none, preview: none })
      const request = only(yield* one(tool), "approval")
      assert.notProperty(request, "risk")
      assert.notProperty(request, "preview")
      assert.deepStrictEqual(ran, [])
    })
  )
})

describe("the approval policy", () => {
  const outcome = (policy: ApprovalPolicy, options: Parameters<typeof probe>[1] = {}) =>
    Effect.map(one(probe("write", options).tool, { policy }), (result) =>
      result.status === "completed" ? results(result.state)[0]! : result.status
    )

  it.effect("asks by default", () =>
    Effect.gen(function* () {
      assert.strictEqual(yield* outcome({ mode: "ask" }), "interrupted")
    })
  )

  it.effect("lets every call through in mode `all`, and the journal names the policy", () =>
    Effect.gen(function* () {
      const { tool } = probe("write")
      const { updates, onUpdate } = watch()
      const agent = Agent.make("a", { tools: [tool], policy: { mode: "all" } })
      const { runtime } = yield* bind(agent, [{ calls: [call("write", "1")] }, "done"])
      expect(yield* runPrompt(runtime, { prompt: "go" }, { onUpdate }), "completed")
      assert.include(JSON.stringify(updates), '"allowedBy":"policy all"')
    })
  )

  it.effect("denies every call that needs approval in mode `none`", () =>
    Effect.gen(function* () {
      assert.include(yield* outcome({ mode: "none" }), "write denied: The approval policy denies")
      assert.strictEqual(
        yield* outcome({ mode: "none" }, { needsApproval: false }),
        "write completed: write:1"
      )
    })
  )

  it.effect("lets calls through until the given time in mode `until`, and asks afterwards", () =>
    Effect.gen(function* () {
      const policy: ApprovalPolicy = { mode: "until", until: 60_000 }
      assert.strictEqual(yield* outcome(policy), "write completed: write:1")
      yield* TestClock.adjust("1 minute")
      assert.strictEqual(yield* outcome(policy), "interrupted")
      assert.strictEqual(yield* outcome({ mode: "until" }), "interrupted")
    })
  )

  it.effect("applies its rules by tool name, in order, before its mode", () =>
    Effect.gen(function* () {
      const rules: ApprovalPolicy["rules"] = [
        { tool: "write", action: "deny", message: "not on Fridays" },
        { tool: "*", action: "approve" }
      ]
      assert.strictEqual(yield* outcome({ mode: "ask", rules }), "write denied: not on Fridays")
      assert.strictEqual(
        yield* outcome({ mode: "none", rules: [{ tool: "wr*", action: "approve" }] }),
        "write completed: write:1"
      )
      assert.strictEqual(
        yield* outcome({ mode: "all", rules: [{ tool: "*te", action: "ask" }] }, { needsApproval: false }),
        "interrupted"
      )
    })
  )

  it.effect("of the run replaces the agent's policy", () =>
    Effect.gen(function* () {
      const { tool } = probe("write")
      const { runtime } = yield* bind(Agent.make("a", { tools: [tool], policy: { mode: "all" } }), [
        { calls: [call("write", "1")] }
      ])
      only(yield* runPrompt(runtime, { prompt: "go", policy: { mode: "ask" } }), "approval")
    })
  )

  it.effect("of a parent and that of its sub-agent both apply, and the stricter wins", () =>
    Effect.gen(function* () {
      const cases: ReadonlyArray<readonly [ApprovalPolicy, ApprovalPolicy, string]> = [
        [{ mode: "ask" }, { mode: "all" }, "interrupted"],
        [{ mode: "none" }, { mode: "all" }, "denied"],
        [{ mode: "all" }, { mode: "ask" }, "interrupted"],
        [{ mode: "all" }, { mode: "all" }, "ran"]
      ]
      for (const [policy, childPolicy, expected] of cases) {
        const { tool, ran } = probe("write")
        const child = Agent.make("child", { tools: [tool], policy: childPolicy })
        const { runtime, model } = yield* bind(Agent.make("parent", { subAgents: [child], policy }), [
          { calls: [{ tool: "child", arguments: { prompt: "do" } }] },
          { calls: [call("write", "1")] },
          "child done",
          "done"
        ])
        const { status } = yield* runPrompt(runtime, { prompt: "go" })
        const denied = JSON.stringify(model.requests).includes('"outcome":"denied"')
        assert.strictEqual(denied ? "denied" : ran.length > 0 ? "ran" : status, expected)
      }
    })
  )
})

describe("a grant", () => {
  /** Approves `write 1 /tmp/a` with a grant; the model then makes further calls. */
  const granted = (
    grant: GrantRequest,
    later: Parameters<typeof bind>[1],
    options: Parameters<typeof probe>[1] = {}
  ) =>
    Effect.gen(function* () {
      const { tool, ran } = probe("write", options)
      const agent = Agent.make("a", { tools: [tool] })
      const { runtime } = yield* bind(agent, [{ calls: [call("write", "1", "/tmp/a")] }, ...later])
      const held = yield* runPrompt(runtime, { prompt: "go" })
      const { updates, onUpdate } = watch()
      const result = yield* runPrompt(
        runtime,
        { state: throughJson(held.state), decisions: [approve(approvalOf(held, "1"), { grant })] },
        { onUpdate }
      )
      return { runtime, result, ran, updates }
    })

  it.effect(
    "covers exactly the approved arguments by default, and is recorded on each call that it let through",
    () =>
      Effect.gen(function* () {
        const { result, ran, updates } = yield* granted({ scope: "run" }, [
          { calls: [call("write", "1", "/tmp/a")] },
          { calls: [call("write", "1", "/tmp/b")] }
        ])
        assert.deepStrictEqual(ran, ["1", "1"])
        assert.deepStrictEqual(only(result, "approval").arguments, { id: "1", path: "/tmp/b" })
        const [grant] = result.state.grants
        assert.deepInclude(grant, { tool: "write", by: "ann", scope: "run" })
        assert.include(JSON.stringify(updates), `"grantId":"${grant?.id}"`)
        assert.include(JSON.stringify(updates), '"allowedBy":"grant of ann"')
      })
  )

  it.effect("covers arguments that match its pattern", () =>
    Effect.gen(function* () {
      const { result, ran } = yield* granted(
        { scope: "run", arguments: { path: { _tag: "glob", pattern: "/tmp/*" } } },
        [{ calls: [call("write", "2", "/tmp/b"), call("write", "3", "/etc/b"), call("write", "4")] }]
      )
      assert.deepStrictEqual(ran, ["1", "2"])
      assert.strictEqual(expect(result, "interrupted").interruptions.length, 2)
    })
  )

  it.effect("covers any arguments when its pattern is empty", () =>
    Effect.gen(function* () {
      const { result, ran } = yield* granted({ scope: "run", arguments: {} }, [
        { calls: [call("write", "2", "/etc/b"), call("write", "3")] },
        "done"
      ])
      expect(result, "completed")
      assert.deepStrictEqual(ran, ["1", "2", "3"])
    })
  )

  it.effect("covers the edited arguments when the approval edits them", () =>
    Effect.gen(function* () {
      const { tool, ran } = probe("write")
      const { runtime } = yield* bind(Agent.make("a", { tools: [tool] }), [
        { calls: [call("write", "1")] },
        { calls: [call("write", "1")] }
      ])
      const held = yield* runPrompt(runtime, { prompt: "go" })
      const decision = approve(approvalOf(held, "1"), { arguments: { id: "9" }, grant: { scope: "run" } })
      const again = yield* runPrompt(runtime, { state: held.state, decisions: [decision] })
      only(again, "approval")
      assert.deepStrictEqual(ran, ["9"])
    })
  )

  it.effect("covers no call after it expires", () =>
    Effect.gen(function* () {
      const slow = { safety: "sideEffecting" } as const
      const { result, runtime, ran } = yield* granted(
        { scope: "session", arguments: {}, expiresAt: 60_000 },
        [{ calls: [call("write", "2")] }, "done", { calls: [call("write", "3")] }],
        slow
      )
      expect(result, "completed")
      yield* TestClock.adjust("1 minute")
      only(yield* runPrompt(runtime, { state: result.state, prompt: "more" }), "approval")
      assert.deepStrictEqual(ran, ["1", "2"])
    })
  )

  it.effect("covers later runs of the session with scope `session`, and not with scope `run`", () =>
    Effect.gen(function* () {
      for (const scope of ["session", "run"] as const) {
        const { result, runtime, ran } = yield* granted({ scope, arguments: {} }, [
          "done",
          { calls: [call("write", "2")] },
          "done"
        ])
        const later = yield* runPrompt(runtime, { state: throughJson(result.state), prompt: "more" })
        assert.strictEqual(later.status, scope === "session" ? "completed" : "interrupted")
        assert.deepStrictEqual(ran, scope === "session" ? ["1", "2"] : ["1"])
      }
    })
  )

  it.effect("is inherited by sub-agents only with `inherit`", () =>
    Effect.gen(function* () {
      for (const inherit of [false, true]) {
        const { tool, ran } = probe("write")
        const child = Agent.make("child", { tools: [tool] })
        const { runtime } = yield* bind(Agent.make("parent", { tools: [tool], subAgents: [child] }), [
          { calls: [call("write", "1")] },
          { calls: [{ tool: "child", arguments: { prompt: "do" } }] },
          { calls: [call("write", "2")] },
          "child done",
          "done"
        ])
        const held = yield* runPrompt(runtime, { prompt: "go" })
        const grant = { scope: "run", arguments: {}, inherit } as const
        const result = yield* runPrompt(runtime, {
          state: held.state,
          decisions: [approve(approvalOf(held, "1"), { grant })]
        })
        assert.strictEqual(result.status, inherit ? "completed" : "interrupted")
        assert.deepStrictEqual(ran, inherit ? ["1", "2"] : ["1"])
      }
    })
  )

  it.effect("releases no request that is already pending", () =>
    Effect.gen(function* () {
      const { tool, ran } = probe("write")
      const { runtime } = yield* bind(Agent.make("a", { tools: [tool] }), [
        { calls: [call("write", "1"), call("write", "2")] }
      ])
      const held = yield* runPrompt(runtime, { prompt: "go" })
      const grant = { scope: "session", arguments: {} } as const
      const after = yield* runPrompt(runtime, {
        state: held.state,
        decisions: [approve(approvalOf(held, "1"), { grant })]
      })
      assert.deepStrictEqual(only(after, "approval").arguments, { id: "2" })
      assert.deepStrictEqual(ran, ["1"])
    })
  )

  it.effect("is refused for a privileged tool, and the request stays open", () =>
    Effect.gen(function* () {
      const { tool, ran } = probe("drop", { safety: "privileged" })
      const { runtime } = yield* bind(Agent.make("a", { tools: [tool] }), [
        { calls: [call("drop", "1")] },
        "done"
      ])
      const held = yield* runPrompt(runtime, { prompt: "go" })
      const request = only(held, "approval")
      const grant = { scope: "run" } as const
      const error = yield* Effect.flip(
        runPrompt(runtime, { state: held.state, decisions: [approve(request, { grant })] })
      )
      assert.strictEqual(error._tag, "GrantRefused")
      assert.deepStrictEqual(ran, [])
      expect(yield* runPrompt(runtime, { state: held.state, decisions: [approve(request)] }), "completed")
    })
  )

  it.effect("does not cover a tool that has become privileged since", () =>
    Effect.gen(function* () {
      const { result, ran } = yield* granted({ scope: "session", arguments: {} }, ["done"])
      const drop = probe("write", { safety: "privileged" })
      const { runtime } = yield* bind(Agent.make("a", { tools: [drop.tool] }), [
        { calls: [call("write", "2")] }
      ])
      only(yield* runPrompt(runtime, { state: throughJson(result.state), prompt: "more" }), "approval")
      assert.deepStrictEqual([ran, drop.ran], [["1"], []])
    })
  )

  it.effect("does not override a policy that denies", () =>
    Effect.gen(function* () {
      const { result, runtime, ran } = yield* granted({ scope: "session", arguments: {} }, [
        "done",
        { calls: [call("write", "2")] },
        "done"
      ])
      const strict = {
        ...runtime,
        bound: { ...runtime.bound, agent: { ...runtime.bound.agent, policy: { mode: "none" as const } } }
      }
      const { state } = yield* runPrompt(strict, { state: result.state, prompt: "more" })
      assert.include(results(state).at(-1), "write denied")
      assert.deepStrictEqual(ran, ["1"])
    })
  )
})

describe("an approval callback", () => {
  const held = (approvalCallback: NonNullable<Parameters<typeof bind<never>>[2]>["approvalCallback"]) => {
    const { tool, ran } = probe("write")
    return Effect.map(one(tool, { approvalCallback: approvalCallback! }), (result) => ({ result, ran }))
  }

  it.effect("decides without holding the run", () =>
    Effect.gen(function* () {
      for (const wrap of [Effect.succeed, <A>(a: A) => Promise.resolve(a), <A>(a: A) => a]) {
        const { result, ran } = yield* held((request) => wrap(approve(request, { by: "callback" })))
        expect(result, "completed")
        assert.deepStrictEqual(ran, ["1"])
        assert.strictEqual(result.state.requests[0]?.decision?.by, "callback")
      }
      const { result, ran } = yield* held((request) => deny(request, { message: "no" }))
      assert.deepStrictEqual(results(expect(result, "completed").state), ["write denied: no"])
      assert.deepStrictEqual(ran, [])
    })
  )

  it.effect("holds the run when it returns nothing", () =>
    Effect.gen(function* () {
      const { result, ran } = yield* held(() => undefined)
      only(result, "approval")
      assert.deepStrictEqual(ran, [])
    })
  )

  it.effect("holds the run when it fails or returns an inapplicable decision", () =>
    Effect.gen(function* () {
      for (const callback of [
        () => {
          throw new Error("no")
        },
        () => Promise.reject(new Error("no")),
        () => Effect.die("no"),
        () => Effect.interrupt,
        () => ({ _tag: "yes" }) as never,
        (request: Parameters<typeof approve>[0]) =>
          ({ _tag: "topUp", requestId: request.requestId, by: "x", limit: 3 }) as const,
        (request: Parameters<typeof approve>[0]) => approve(request, { arguments: { id: 3 } }),
        (request: Parameters<typeof approve>[0]) => approve(request, { digest: "0".repeat(64) })
      ]) {
        const { result, ran } = yield* held(callback)
        only(result, "approval")
        assert.deepStrictEqual(ran, [])
      }
    })
  )

  it.effect("decides only the request that it was asked about", () =>
    Effect.gen(function* () {
      const { tool, ran } = probe("write")
      const asked: Array<Parameters<typeof approve>[0]> = []
      const { runtime } = yield* bind(
        Agent.make("a", { tools: [tool] }),
        [{ calls: [call("write", "1"), call("write", "2")] }, "unheard"],
        {
          // Approves the first request each time.
          approvalCallback: (request) => {
            asked.push(request)
            return { _tag: "approve", requestId: asked[0]!.requestId, by: "x" }
          }
        }
      )
      const result = yield* runPrompt(runtime, { prompt: "go" })
      assert.strictEqual(only(result, "approval").requestId, asked[1]?.requestId)
      assert.lengthOf(asked, 2)
      assert.deepStrictEqual(ran, ["1"])
    })
  )

  it.effect("may omit the request id from its decision", () =>
    Effect.gen(function* () {
      const { result, ran } = yield* held(() => ({ _tag: "approve", by: "x" }) as never)
      expect(result, "completed")
      assert.deepStrictEqual(ran, ["1"])
    })
  )
})

describe("a non-interactive run", () => {
  const options = { interactive: false }

  it.effect("denies calls that need approval, and the result says that they have not run", () =>
    Effect.gen(function* () {
      const { tool, ran } = probe("write")
      const { state } = expect(yield* one(tool, options), "completed")
      assert.deepStrictEqual(results(state), [
        "write denied: write needs approval, and this run is not interactive. It has not run."
      ])
      assert.deepStrictEqual(ran, [])
    })
  )

  it.effect("fails a question", () =>
    Effect.gen(function* () {
      const { runtime } = yield* bind(
        Agent.make("a", { tools: [Tool.askUser] }),
        [{ calls: [{ tool: "ask_user", arguments: { question: "Which?" } }] }, "done"],
        options
      )
      const { state } = expect(yield* runPrompt(runtime, { prompt: "go" }), "completed")
      assert.include(results(state)[0], "ask_user failed: This run is not interactive")
    })
  )
})

describe("a question asked by the model", () => {
  const asking = () =>
    Effect.gen(function* () {
      const { runtime, model } = yield* bind(Agent.make("a", { tools: [Tool.askUser] }), [
        { calls: [{ tool: "ask_user", arguments: { question: "Which?", options: ["a", "b"] } }] },
        "done"
      ])
      return { runtime, model, held: yield* runPrompt(runtime, { prompt: "go" }) }
    })

  it.effect("holds the run until it is answered, and the answer becomes the call's result", () =>
    Effect.gen(function* () {
      const { runtime, held } = yield* asking()
      const request = only(held, "question")
      assert.deepInclude(request, { question: "Which?", options: ["a", "b"] })
      const { requestId } = request
      const { state } = expect(
        yield* runPrompt(runtime, {
          state: throughJson(held.state),
          decisions: [{ _tag: "answer", requestId, by: "ann", answer: "neither" }]
        }),
        "completed"
      )
      assert.deepStrictEqual(results(state), ["ask_user completed: neither"])
    })
  )

  it.effect("can be denied, and cannot be approved", () =>
    Effect.gen(function* () {
      const { runtime, held } = yield* asking()
      const request = only(held, "question")
      const error = yield* Effect.flip(
        runPrompt(runtime, { state: held.state, decisions: [approve(request)] })
      )
      assert.strictEqual(error._tag, "DecisionNotApplicable")
      const { state } = yield* runPrompt(runtime, { state: held.state, decisions: [deny(request)] })
      assert.include(results(state)[0], "ask_user denied")
    })
  )
})

describe("an approval's expiresIn", () => {
  it.effect("sets no expiry when infinite, and is refused when zero, negative or NaN", () =>
    Effect.gen(function* () {
      const { tool } = probe("write", { approval: { expiresIn: Infinity } })
      const request = only(yield* one(tool), "approval")
      assert.isUndefined(request.expiresAt)
      const wrong = probe("write", { approval: { expiresIn: 0 } })
      const error = yield* Effect.flip(bind(Agent.make("a", { tools: [wrong.tool] }), []))
      assert.strictEqual(error._tag, "ToolDefinitionError")
      for (const expiresIn of [-1, Number.NaN])
        assert.throws(() => probe("write", { approval: { expiresIn } }), /takes a duration/)
    })
  )

  it.effect("is refused with onExpiry and no expiry, where it has no effect", () =>
    Effect.gen(function* () {
      const wrong = probe("write", { approval: { onExpiry: "stay" } })
      const error = yield* Effect.flip(bind(Agent.make("a", { tools: [wrong.tool] }), []))
      assert.strictEqual(error._tag, "ToolDefinitionError")
      assert.include(error.message, '"onExpiry" has no effect without "expiresIn"')
    })
  )
})

describe("a request with an expiry", () => {
  const expiring = (onExpiry?: "deny" | "stay") =>
    Effect.gen(function* () {
      const { tool, ran } = probe("write", {
        approval: { expiresIn: "1 hour", ...(onExpiry === undefined ? {} : { onExpiry }) }
      })
      const { runtime } = yield* bind(Agent.make("a", { tools: [tool] }), [
        { calls: [call("write", "1")] },
        "done"
      ])
      const held = yield* runPrompt(runtime, { prompt: "go" })
      assert.strictEqual(only(held, "approval").expiresAt, 3_600_000)
      yield* TestClock.adjust("1 hour")
      return { runtime, held, ran, state: throughJson(held.state) as RunState }
    })

  it.effect("is denied by `expiry` in the record when its time is up", () =>
    Effect.gen(function* () {
      const { runtime, state, ran } = yield* expiring()
      const done = expect(yield* runPrompt(runtime, { state }), "completed")
      assert.deepStrictEqual(results(done.state), [
        "write denied: Nobody decided before 1970-01-01T01:00:00.000Z."
      ])
      assert.deepInclude(done.state.requests[0]?.decision, { _tag: "deny", by: "expiry", at: 3_600_000 })
      assert.deepStrictEqual(ran, [])
    })
  )

  it.effect("rejects a decision after its expiry", () =>
    Effect.gen(function* () {
      const { runtime, state, ran } = yield* expiring()
      const decisions = [approve(interruptions(state)[0]!)]
      const error = yield* Effect.flip(runPrompt(runtime, { state, decisions }))
      assert.deepInclude({ ...error }, { _tag: "AlreadyDecided", by: "expiry" })
      assert.deepStrictEqual(ran, [])
    })
  )

  it.effect("stays open after its expiry with onExpiry `stay`", () =>
    Effect.gen(function* () {
      const { runtime, state, ran } = yield* expiring("stay")
      const again = yield* runPrompt(runtime, { state })
      const request = only(again, "approval")
      expect(yield* runPrompt(runtime, { state: again.state, decisions: [approve(request)] }), "completed")
      assert.deepStrictEqual(ran, ["1"])
    })
  )
})
