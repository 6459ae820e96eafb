/**
 * The contract of requests: how they are found and listed.
 */
import * as Effect from "effect/Effect"
import type { PendingFilter } from "../../../store/RunStore.ts"
import { a, b, inChild, rev, run, session } from "./events.ts"
import type { Group, Store } from "./group.ts"
import { approval, approve, decided, opened, question } from "./requests.ts"
import { claimed, heldOn, openIds, started } from "./stored.ts"

export const inbox = ({ assert, fails, test }: Group): void => {
  test("finds a request of a sub-agent by the root run", function* (store) {
    const child = run("run_a.t1.1")
    const request = approval(child, 1, { agentPath: ["root", "writer"] })
    const open = inChild(a, inChild(child, opened(request)))
    yield* store.release(yield* started(store, a, { events: [open], status: "held" }))
    const pending = { request, runId: a, sessionId: session("s-run_a"), agent: "root" }
    assert.deepStrictEqual(yield* store.pending({ runId: a }), [pending])
    assert.deepStrictEqual(yield* store.pending({ runId: child }), [])
    assert.deepStrictEqual(yield* store.request(request.requestId), pending)
    const { decision, runId } = yield* store.decide(approve(request.requestId))
    assert.strictEqual(runId, a)
    const events = [inChild(a, inChild(child, decided(decision)))] as const
    const lease = yield* claimed(store, a)
    yield* store.append({ lease, expected: rev(1), events, status: "running" })
    assert.deepStrictEqual(yield* store.decisions(a), [])
  })

  test("knows no request that was not opened", function* (store) {
    const { requestId } = approval(a, 1)
    yield* fails(store.request(requestId), { _tag: "RequestNotFound", requestId })
  })

  const asked = Effect.fnUntraced(function* (store: Store) {
    yield* heldOn(store, a, [
      approval(a, 1, { at: 10, tool: "deploy" }),
      approval(a, 2, { at: 30, tool: "drop", agentPath: ["root", "dba"], expiresAt: 500, onExpiry: "stay" })
    ])
    yield* heldOn(store, b, [question(b, 1), approval(b, 2, { at: 20, expiresAt: 900 })], {
      sessionId: session("other"),
      agent: "second"
    })
  })

  const filters: ReadonlyArray<readonly [string, PendingFilter, ReadonlyArray<string>]> = [
    ["everything, oldest first", {}, ["run_b.r1", "run_a.r1", "run_b.r2", "run_a.r2"]],
    ["one run's", { runId: a }, ["run_a.r1", "run_a.r2"]],
    ["one session's", { sessionId: session("other") }, ["run_b.r1", "run_b.r2"]],
    ["one kind", { kind: "question" }, ["run_b.r1"]],
    ["one tool's", { tool: "drop" }, ["run_a.r2"]],
    ["one agent's, anywhere in the path", { agent: "dba" }, ["run_a.r2"]],
    ["those of no agent whose name is only a part", { agent: "db" }, []],
    ["those asked before a time", { askedBefore: 20 }, ["run_b.r1", "run_a.r1"]],
    ["those expiring before a time", { expiresBefore: 900 }, ["run_a.r2"]],
    [
      "those that meet all conditions",
      { agent: "root", kind: "approval", askedBefore: 25 },
      ["run_a.r1", "run_b.r2"]
    ],
    ["at most so many", { limit: 2 }, ["run_b.r1", "run_a.r1"]],
    ["none when none are wanted", { limit: 0 }, []],
    ["the next page", { limit: 2, after: approval(a, 1).requestId }, ["run_b.r2", "run_a.r2"]],
    ["nothing for a hostile tool", { tool: "' OR '1'='1\0" }, []],
    ["nothing for a hostile agent", { agent: '","root' }, []],
    ["nothing for a huge name", { agent: "x".repeat(1e6) }, []]
  ]
  for (const [title, filter, expected] of filters) {
    test(`lists open requests: ${title}`, function* (store) {
      yield* asked(store)
      assert.deepStrictEqual(yield* openIds(store, filter), expected)
    })
  }

  test("goes on after a request that was decided since", function* (store) {
    yield* asked(store)
    const after = approval(a, 1).requestId
    yield* store.decide(approve(after))
    assert.deepStrictEqual(yield* openIds(store, { after }), ["run_b.r2", "run_a.r2"])
  })

  test("finds an agent whatever its name holds, and no other", function* (store) {
    const names = ['x"b', "b", "b\\", "a\0b", 'x,"b', "日本語", "%", "_"]
    for (const [index, name] of names.entries()) {
      const runId = run(`run_${index}`)
      yield* heldOn(store, runId, [approval(runId, 1, { agentPath: ["root", name] })])
    }
    for (const [index, agent] of names.entries()) {
      assert.deepStrictEqual(yield* openIds(store, { agent }), [`run_${index}.r1`])
    }
  })
}
