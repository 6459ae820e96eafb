/**
 * The contract of requests and decisions.
 */
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as TestClock from "effect/testing/TestClock"
import type { Decision, DecisionInput } from "../../../domain/Decision.ts"
import type { Interruption } from "../../../domain/Interruption.ts"
import type { PendingFilter } from "../../../store/RunStore.ts"
import { a, b, inChild, rev, run, said, session } from "./events.ts"
import type { Group, Store } from "./group.ts"
import { approval, approve, decided, deny, opened, question } from "./requests.ts"
import { factsOf, fields, heldOn, openRequests, started, tagOf } from "./stored.ts"

export const decisions = ({ assert, test }: Group): void => {
  const request = approval(a, 1)
  const { requestId } = request

  test("takes a decision without a lease and keeps it for the next owner of the run's lease", function* (store) {
    yield* heldOn(store, a, [request])
    yield* TestClock.adjust("1 second")
    const input = { ...approve(requestId), note: "fine", arguments: { index: 2 } } as const
    const decision = { ...input, at: 1000 }
    assert.deepStrictEqual(yield* store.decide(input), { runId: a, decision })
    assert.deepStrictEqual(yield* store.decisions(a), [decision])
    assert.deepStrictEqual((yield* store.load(a)).decisions, [decision])
    assert.deepStrictEqual((yield* store.request(requestId)).decision, decision)
    assert.deepStrictEqual(yield* store.pending(), [])
  })

  test("refuses the second decision and tells which one counts", function* (store) {
    yield* heldOn(store, a, [request])
    const { decision } = yield* store.decide(approve(requestId))
    assert.deepStrictEqual(yield* factsOf(store.decide(deny(requestId))), {
      _tag: "AlreadyDecided",
      requestId,
      by: "ada",
      at: 0,
      decision
    })
    assert.strictEqual(yield* tagOf(store.decide(approve(requestId))), "AlreadyDecided")
    assert.deepStrictEqual(yield* store.decisions(a), [decision])
  })

  test("lets one of many who decide at once win", function* (store) {
    yield* heldOn(store, a, [request])
    const attempts = Array.from({ length: 8 }, (_, index) =>
      Effect.exit(store.decide((index % 2 === 0 ? approve : deny)(requestId, `person ${index}`)))
    )
    const fibers = yield* Effect.forEach(attempts, (attempt) => Effect.forkChild(attempt))
    const exits = yield* Effect.forEach(fibers, Fiber.join)
    const won = exits.flatMap((exit) => (exit._tag === "Success" ? [exit.value.decision] : []))
    assert.strictEqual(won.length, 1)
    assert.deepStrictEqual(yield* store.decisions(a), won)
  })

  const { digest } = request
  const answers: ReadonlyArray<readonly [Interruption, Decision]> = [
    [
      request,
      {
        _tag: "approve",
        requestId,
        by: "ada",
        at: 5,
        digest,
        grant: { scope: "run" },
        arguments: { index: 7 }
      }
    ],
    [request, { _tag: "deny", requestId, by: "ada", at: 5, message: "no", then: "stop" }],
    [request, { _tag: "supply", requestId, by: "ada", at: 5, result: { ok: [1, null, "two"] } }],
    [question(a, 1), { _tag: "answer", requestId, by: "ada", at: 5, answer: "this one" }]
  ]
  for (const [asked, decision] of answers) {
    test(`keeps a decision to ${decision._tag} as it was given`, function* (store) {
      yield* heldOn(store, a, [asked])
      yield* store.decide(decision)
      assert.deepStrictEqual(yield* store.decisions(a), [decision])
    })
  }

  test("refuses what cannot answer the request and leaves it open", function* (store) {
    yield* heldOn(store, a, [approval(a, 1, { safety: "privileged" })])
    const refused: ReadonlyArray<readonly [string, unknown]> = [
      ["RequestNotFound", approve(approval(a, 2).requestId)],
      ["RequestNotFound", { ...approve(requestId), requestId: "x".repeat(500) }],
      ["ArgumentsChanged", { ...approve(requestId), digest: "another" }],
      ["DecisionNotApplicable", { _tag: "answer", requestId, by: "ada", answer: "yes" }],
      ["DecisionMalformed", { _tag: "yes", requestId, by: "ada" }],
      ["DecisionMalformed", { _tag: "approve", requestId }],
      ["DecisionMalformed", { _tag: "approve", requestId: "'; --\0", by: "ada" }],
      ["DecisionMalformed", "yes"],
      ["DecisionMalformed", null]
    ]
    for (const [tag, input] of refused) {
      assert.strictEqual(yield* tagOf(store.decide(input as DecisionInput)), tag)
    }
    assert.strictEqual((yield* store.pending()).length, 1)
    assert.deepStrictEqual(yield* store.decisions(a), [])
  })

  test("keeps requests whose times are no whole milliseconds", function* (store) {
    const asked = approval(a, 1, { at: 0.25, expiresAt: 60_000.75, onExpiry: "deny" })
    yield* heldOn(store, a, [asked])
    assert.deepStrictEqual(yield* openRequests(store), [asked])
    assert.deepStrictEqual((yield* store.decide(approve(requestId))).runId, a)
    assert.deepStrictEqual(yield* store.damaged, [])
  })

  test("denies by expiry a request whose time is up", function* (store) {
    yield* heldOn(store, a, [approval(a, 1, { expiresAt: 60_000, onExpiry: "deny" })])
    yield* TestClock.adjust("59 seconds")
    assert.deepStrictEqual(yield* store.decisions(a), [])
    assert.strictEqual((yield* store.pending()).length, 1)
    yield* TestClock.adjust("1 second")
    const [decision] = yield* store.decisions(a)
    assert.deepStrictEqual([decision?._tag, decision?.by, decision?.at], ["deny", "expiry", 60_000])
    assert.deepStrictEqual((yield* store.load(a)).decisions, [decision])
    assert.deepStrictEqual((yield* store.request(requestId)).decision, decision)
    assert.deepStrictEqual(yield* store.pending(), [])
    assert.strictEqual((yield* store.pending({ expiresBefore: 60_001 })).length, 1)
    assert.deepStrictEqual(yield* factsOf(store.decide(approve(requestId))), {
      _tag: "AlreadyDecided",
      requestId,
      by: "expiry",
      at: 60_000,
      decision: fields(decision)
    })
    assert.deepStrictEqual(yield* store.decisions(a), [decision])
    assert.deepStrictEqual(yield* store.pending({ expiresBefore: 60_001 }), [])
  })

  test("lets a request that stays be decided after its time", function* (store) {
    yield* heldOn(store, a, [approval(a, 1, { expiresAt: 60_000, onExpiry: "stay" })])
    yield* TestClock.adjust("2 minutes")
    assert.strictEqual((yield* store.pending()).length, 1)
    assert.deepStrictEqual(yield* store.decisions(a), [])
    yield* store.decide(approve(requestId))
  })

  test("gives decisions oldest first, until they are in the journal", function* (store) {
    yield* heldOn(store, a, [approval(a, 1), approval(a, 2), approval(a, 3)])
    const [one, two, three] = [approval(a, 1).requestId, approval(a, 2).requestId, approval(a, 3).requestId]
    for (const id of [three, one]) {
      yield* TestClock.adjust("1 second")
      yield* store.decide(approve(id))
    }
    const waiting = yield* store.decisions(a)
    assert.deepStrictEqual(
      waiting.map((decision) => decision.requestId),
      [three, one]
    )
    yield* journalDecision(store, waiting[0]!, 3)
    assert.deepStrictEqual(
      (yield* store.decisions(a)).map((decision) => decision.requestId),
      [one]
    )
    assert.deepStrictEqual(
      (yield* store.pending()).map((pending) => pending.request.requestId),
      [two]
    )
    assert.strictEqual(yield* tagOf(store.decide(deny(three))), "AlreadyDecided")
  })

  test("lets the owner of the run's lease decide inline", function* (store) {
    yield* heldOn(store, a, [request])
    const decision: Decision = { ...approve(requestId, "callback"), at: 7 }
    yield* journalDecision(store, decision, 1)
    assert.deepStrictEqual([yield* store.pending(), yield* store.decisions(a)], [[], []])
    assert.deepStrictEqual((yield* store.request(requestId)).decision, decision)
  })

  test("refuses an append that decides a request otherwise than it was decided", function* (store) {
    yield* heldOn(store, a, [request])
    const { decision } = yield* store.decide(approve(requestId))
    const other: Decision = { ...deny(requestId, "callback"), at: 7 }
    assert.strictEqual(yield* tagOf(journalDecision(store, other, 1)), "RunConflict")
    assert.strictEqual((yield* store.head(a)).revision, 1)
    assert.deepStrictEqual(yield* store.decisions(a), [decision])
  })

  test("closes what is still open when a run ends", function* (store) {
    yield* heldOn(store, a, [request, approval(a, 2)])
    yield* store.decide(approve(requestId))
    const lease = yield* store.claim({ runId: a, owner: "me", ttl: "1 hour" })
    yield* store.append({ lease, expected: rev(2), events: [said("end")], status: "cancelled" })
    assert.deepStrictEqual(yield* store.pending(), [])
    const error = yield* Effect.flip(store.decide(approve(approval(a, 2).requestId)))
    assert.strictEqual(error._tag, "RequestSuperseded")
    assert.isTrue(error.message.includes("cancelled"))
    assert.strictEqual(yield* tagOf(store.decide(deny(requestId))), "AlreadyDecided")
  })

  test("points from a superseded request to the one that asks again", function* (store) {
    yield* heldOn(store, a, [request])
    yield* store.decide(approve(requestId))
    const next = approval(a, 2)
    const lease = yield* store.claim({ runId: a, owner: "me", ttl: "1 hour" })
    const reason = "the arguments changed"
    const superseded = { _tag: "request.superseded", at: 2, requestId, reason, by: next.requestId } as const
    yield* store.append({ lease, expected: rev(1), events: [superseded, opened(next)], status: "held" })
    assert.deepStrictEqual(yield* factsOf(store.decide(approve(requestId))), {
      _tag: "RequestSuperseded",
      requestId,
      reason,
      by: next.requestId
    })
    assert.deepStrictEqual(yield* openRequests(store), [next])
    assert.deepStrictEqual(yield* store.decisions(a), [])
  })
}

export const inbox = ({ assert, test }: Group): void => {
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
    const lease = yield* store.claim({ runId: a, owner: "me", ttl: "1 hour" })
    yield* store.append({ lease, expected: rev(1), events, status: "running" })
    assert.deepStrictEqual(yield* store.decisions(a), [])
  })

  test("knows no request that was not opened", function* (store) {
    const { requestId } = approval(a, 1)
    assert.deepStrictEqual(yield* factsOf(store.request(requestId)), { _tag: "RequestNotFound", requestId })
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
      const found = yield* store.pending(filter)
      assert.deepStrictEqual(
        found.map((pending) => String(pending.request.requestId)),
        expected
      )
    })
  }

  test("goes on after a request that was decided since", function* (store) {
    yield* asked(store)
    const after = approval(a, 1).requestId
    yield* store.decide(approve(after))
    const rest = yield* store.pending({ after })
    assert.deepStrictEqual(
      rest.map((pending) => String(pending.request.requestId)),
      ["run_b.r2", "run_a.r2"]
    )
  })

  test("finds an agent whatever its name holds, and no other", function* (store) {
    const names = ['x"b', "b", "b\\", "a\0b", 'x,"b', "日本語", "%", "_"]
    for (const [index, name] of names.entries()) {
      const runId = run(`run_${index}`)
      yield* heldOn(store, runId, [approval(runId, 1, { agentPath: ["root", name] })])
    }
    for (const name of names) {
      const found = yield* store.pending({ agent: name })
      assert.deepStrictEqual(
        found.map((pending) => pending.request.agentPath[1]),
        [name]
      )
    }
  })
}

const journalDecision = Effect.fnUntraced(function* (store: Store, decision: Decision, expected: number) {
  const lease = yield* store.claim({ runId: a, owner: "me", ttl: "1 hour" })
  yield* Effect.ensuring(
    store.append({ lease, expected: rev(expected), events: [decided(decision)], status: "running" }),
    Effect.orDie(store.release(lease))
  )
})
