/**
 * The contract of the inbox: reading requests by id, run and filter.
 */
import * as Effect from "effect/Effect"
import type { RequestId } from "../../../domain/Id.ts"
import type { PendingFilter } from "../../../store/RunStore.ts"
import { a, b, inChild, rev, run, session } from "./events.ts"
import type { Group, Store } from "./group.ts"
import { approval, approve, decided, opened, question } from "./requests.ts"
import { claimed, heldOn, openIds, started } from "./stored.ts"

export const inbox = ({ assert, fails, test }: Group): void => {
  test("lists a request of a sub-agent under the root run", function* (store) {
    const child = run("run_a.t1.1")
    const request = approval(child, 1, { agentPath: ["root", "writer"] })
    const open = inChild(a, inChild(child, opened(request)))
    yield* store.release(yield* started(store, a, { events: [open], status: "held" }))
    const pending = { request, runId: a, sessionId: session("s-run_a"), agent: "root" }
    assert.deepStrictEqual(yield* store.pending({ runId: a }), [pending])
    assert.deepStrictEqual(yield* store.pending({ runId: child }), [pending])
    for (const other of ["run_a.t1.2", "run_a.t1.1.t1.1", "run_b.t1.1", "run_a.t1.10"]) {
      assert.deepStrictEqual(yield* store.pending({ runId: run(other) }), [])
    }
    assert.deepStrictEqual(yield* store.request(request.requestId), pending)
    const { decision, runId } = yield* store.decide(approve(request.requestId))
    assert.strictEqual(runId, a)
    const events = [inChild(a, inChild(child, decided(decision)))] as const
    const lease = yield* claimed(store, a)
    yield* store.append({ lease, expected: rev(1), events, status: "running" })
    assert.deepStrictEqual(yield* store.decisions(a), [])
  })

  test("fails with RequestNotFound for a request that was not opened", function* (store) {
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
    ["all, oldest first", {}, ["run_b.r1", "run_a.r1", "run_b.r2", "run_a.r2"]],
    ["of a run", { runId: a }, ["run_a.r1", "run_a.r2"]],
    ["of a session", { sessionId: session("other") }, ["run_b.r1", "run_b.r2"]],
    ["of a kind", { kind: "question" }, ["run_b.r1"]],
    [
      "of several kinds",
      { kind: ["question", "approval"] },
      ["run_b.r1", "run_a.r1", "run_b.r2", "run_a.r2"]
    ],
    ["of several kinds and a tool", { kind: ["question", "approval"], tool: "drop" }, ["run_a.r2"]],
    ["of a tool", { tool: "drop" }, ["run_a.r2"]],
    ["of an agent, at any place in the agent path", { agent: "dba" }, ["run_a.r2"]],
    ["none for a part of an agent's name", { agent: "db" }, []],
    ["opened before a time", { askedBefore: 20 }, ["run_b.r1", "run_a.r1"]],
    ["expiring before a time", { expiresBefore: 900 }, ["run_a.r2"]],
    [
      "that meet all conditions",
      { agent: "root", kind: "approval", askedBefore: 25 },
      ["run_a.r1", "run_b.r2"]
    ],
    ["at most `limit`", { limit: 2 }, ["run_b.r1", "run_a.r1"]],
    ["none with the limit 0", { limit: 0 }, []],
    ["the next page", { limit: 2, after: approval(a, 1).requestId }, ["run_b.r2", "run_a.r2"]],
    ["none for a tool name with SQL", { tool: "' OR '1'='1\0" }, []],
    ["none for an agent name with JSON", { agent: '","root' }, []],
    ["none for an agent name of a million characters", { agent: "x".repeat(1e6) }, []]
  ]
  for (const [title, filter, expected] of filters) {
    test(`lists open requests: ${title}`, function* (store) {
      yield* asked(store)
      assert.deepStrictEqual(yield* openIds(store, filter), expected)
    })
  }

  test("lists the requests of a kind, a tool and an agent oldest first, page by page", function* (store) {
    const ids = Array.from({ length: 6 }, (_, index) => run(`run_${index}`))
    for (const [index, id] of ids.entries()) {
      const fields = {
        at: 10 - index,
        tool: ["pay", "mail"][index % 2]!,
        agentPath: [["root"], ["root", "sub"]][index % 2]!
      }
      yield* heldOn(store, id, [index === 5 ? { ...question(id, 1), at: 5 } : approval(id, 1, fields)])
    }
    const listed = function* (filter: PendingFilter) {
      const found: Array<string> = []
      for (let after: RequestId | undefined; ;) {
        const page = yield* store.pending({ ...filter, limit: 2, ...(after === undefined ? {} : { after }) })
        found.push(...page.map(({ runId }) => runId))
        after = page.at(-1)?.request.requestId
        if (after === undefined) return found
      }
    }
    const at = (...indexes: ReadonlyArray<number>) => indexes.map((index) => `run_${index}`)
    assert.deepStrictEqual(yield* listed({ kind: "approval" }), at(4, 3, 2, 1, 0))
    assert.deepStrictEqual(yield* listed({ kind: "question" }), at(5))
    assert.deepStrictEqual(yield* listed({ kind: "question", tool: "pay" }), [])
    assert.deepStrictEqual(yield* listed({ tool: "pay" }), at(4, 2, 0))
    assert.deepStrictEqual(yield* listed({ agent: "root" }), at(5, 4, 3, 2, 1, 0))
    assert.deepStrictEqual(yield* listed({ agent: "sub" }), at(3, 1))
    assert.deepStrictEqual(yield* listed({ agent: "sub", tool: "pay" }), [])
    assert.deepStrictEqual(yield* listed({ agent: "sub", askedBefore: 8 }), at(3))
  })

  test("lists the page after a request that has been decided", function* (store) {
    yield* asked(store)
    const after = approval(a, 1).requestId
    yield* store.decide(approve(after))
    assert.deepStrictEqual(yield* openIds(store, { after }), ["run_b.r2", "run_a.r2"])
  })

  test("lists the requests of exactly the agent with the given name, even with special characters", function* (store) {
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
