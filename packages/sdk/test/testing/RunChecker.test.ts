import { assert, describe, it } from "@effect/vitest"
import type { Decision, DecisionInput } from "../../src/domain/Decision.ts"
import { evolveAll } from "../../src/domain/evolve.ts"
import type { RequestId, Revision, RunId, SessionId, ToolCallId } from "../../src/domain/Id.ts"
import type { Interruption } from "../../src/domain/Interruption.ts"
import * as Limits from "../../src/domain/Limits.ts"
import type { RunEvent } from "../../src/domain/RunEvent.ts"
import * as RunChecker from "../../src/testing/RunChecker.ts"

const runId = "run" as RunId
const callId = "run.t1.1" as ToolCallId
const requestId = "run.r1" as RequestId
const args = { amount: 1 }

const usage = { inputTokens: 1, outputTokens: 1, cachedInputTokens: 0, reasoningTokens: 0 }
const answered = (...calls: ReadonlyArray<string>): RunEvent => ({
  _tag: "model.answered",
  at: 2,
  content: [
    { _tag: "text", text: "Well." },
    ...calls.map(
      (name) =>
        ({
          _tag: "toolCall",
          providerCallId: "call_0",
          name,
          arguments: JSON.stringify(args)
        }) as const
    )
  ],
  usage,
  finishReason: "stop"
})
const started: RunEvent = {
  _tag: "run.started",
  at: 1,
  runId,
  sessionId: "session" as SessionId,
  agent: { name: "clerk", instructions: "", tools: {} },
  agentPath: ["clerk"],
  prompt: [{ _tag: "text", text: "Do it." }],
  limits: Limits.defaults,
  policy: { mode: "ask" },
  asks: true,
  structured: false
}
const classified: RunEvent = {
  _tag: "tool.classified",
  at: 3,
  callId,
  target: "tool",
  safety: "sideEffecting",
  idempotent: false,
  arguments: args
}
const approval: Interruption = {
  _tag: "approval",
  requestId,
  runId,
  agentPath: ["clerk"],
  at: 3,
  callId,
  tool: "charge",
  arguments: args,
  digest: "d",
  safety: "sideEffecting"
}
const opened: RunEvent = { _tag: "request.opened", at: 3, request: approval }
const approve = { _tag: "approve", requestId, by: "ann", at: 4, digest: "d" } as const
const decided: RunEvent = { _tag: "request.decided", at: 4, decision: approve }
const held: RunEvent = { _tag: "run.held", at: 3 }
const resumed: RunEvent = { _tag: "run.resumed", at: 4 }
const toolStarted: RunEvent = { _tag: "tool.started", at: 5, callId, idempotencyKey: callId }
const completed: RunEvent = { _tag: "tool.completed", at: 6, callId, content: [{ _tag: "text", text: "ok" }] }
const done: RunEvent = { _tag: "run.completed", at: 8 }

const beforeDecision = [started, answered("charge"), classified, opened, held]
const sound = [...beforeDecision, decided, resumed, toolStarted, completed, answered(), done]
const effect: RunChecker.Effect = { idempotencyKey: callId, tool: "charge", arguments: args, attempt: 1 }

/** The violations of one run with these events. */
const check = (events: ReadonlyArray<RunEvent>, evidence: Partial<RunChecker.Evidence> = {}) => {
  let status: RunChecker.Journal["status"] = "running"
  try {
    status = evolveAll(undefined, events)?.status ?? "running"
  } catch {
    // A journal that cannot be folded has no status.
  }
  const revision = events.length as Revision
  return RunChecker.check({ journals: [{ runId, events, revision, status }], ...evidence })
}
const invariants = (...given: Parameters<typeof check>) => [
  ...new Set(check(...given).map(({ invariant }) => invariant))
]
const without = (...left: ReadonlyArray<RunEvent>) => sound.filter((event) => !left.includes(event))
const inserted = (event: RunEvent, after: RunEvent) =>
  sound.flatMap((other) => (other === after ? [other, event] : [other]))
const all = { effects: [effect], effectTools: ["charge"] }

describe("RunChecker", () => {
  it("finds no violation in a correct run with all evidence", () => {
    const evidence: Partial<RunChecker.Evidence> = {
      ...all,
      inbox: { open: [], undelivered: [] },
      acknowledged: {
        appended: [{ runId, revision: 5, events: [decided, resumed] }],
        decisions: [{ runId, decision: approve }],
        ended: [{ runId, status: "completed" }]
      },
      secrets: { values: ["sesame"], texts: [JSON.stringify(sound)] }
    }
    assert.deepStrictEqual(check(sound, evidence), [])
  })

  it("names the run and describes the violation", () => {
    assert.deepStrictEqual(check(sound, { effects: [effect, effect] }), [
      { invariant: "atMostOnce", runId, detail: "run.t1.1 took effect 2 times and was released 1 times" },
      { invariant: "atMostOnce", runId, detail: "run.t1.1 took effect twice in one attempt" }
    ])
  })

  it("finds a gap when the head counts more events than the journal has", () => {
    const journal = {
      runId,
      events: sound,
      revision: (sound.length + 1) as Revision,
      status: "completed"
    } as const
    assert.deepStrictEqual(
      RunChecker.check({ journals: [journal] }).map(({ invariant }) => invariant),
      ["gapless"]
    )
  })

  it("finds a journal without its beginning, and one with another status than its head", () => {
    assert.deepStrictEqual(invariants(sound.slice(1)), ["foldable"])
    const journal = { runId, events: sound, revision: sound.length as Revision, status: "held" } as const
    assert.deepStrictEqual(
      RunChecker.check({ journals: [journal] }).map(({ invariant }) => invariant),
      ["foldable"]
    )
  })

  it("finds an effect without a started attempt in the journal", () => {
    assert.include(invariants(without(toolStarted), all), "attemptFirst")
    assert.deepStrictEqual(invariants(sound, { effects: [effect, { ...effect, idempotencyKey: "other" }] }), [
      "attemptFirst"
    ])
  })

  it("finds a result without an effect", () => {
    assert.deepStrictEqual(invariants(sound, { ...all, effects: [] }), ["lostEffect"])
  })

  it("finds a call that was started again without permission", () => {
    assert.include(invariants(inserted(toolStarted, toolStarted), all), "atMostOnce")
  })

  it("accepts a second attempt after the tool reported that nothing happened", () => {
    const events = inserted(toolStarted, toolStarted)
    const reconciled = [{ idempotencyKey: callId, answer: "notHappened" } as const]
    const effects = [{ ...effect, attempt: 2 }]
    assert.deepStrictEqual(check(events, { ...all, effects, reconciled }), [])
  })

  it("accepts a second attempt after a decision to retry", () => {
    const doubt = "run.r2" as RequestId
    const request: Interruption = {
      ...approval,
      _tag: "inDoubt",
      requestId: doubt,
      idempotencyKey: callId,
      startedAt: 5,
      attempt: 1
    }
    const retry = { _tag: "retry", requestId: doubt, by: "ann", at: 6 } as const
    const events = sound.flatMap((event): ReadonlyArray<RunEvent> =>
      event === toolStarted
        ? [
            toolStarted,
            { _tag: "request.opened", at: 5, request },
            { _tag: "request.decided", at: 6, decision: retry },
            toolStarted
          ]
        : [event]
    )
    assert.deepStrictEqual(check(events, { effects: [effect, { ...effect, attempt: 2 }] }), [])
    assert.deepStrictEqual(invariants(events, { effects: [effect, effect, { ...effect, attempt: 2 }] }), [
      "atMostOnce"
    ])
  })

  it("finds a second result of a call", () => {
    assert.include(invariants(inserted(completed, completed)), "oneResult")
  })

  it("finds a call that ran without its approval", () => {
    assert.include(invariants(without(decided), all), "approvedOnly")
  })

  it("finds a call that an unknown grant allowed", () => {
    const granted = { ...classified, allowedBy: "grant of ann", grantId: "run.r9.grant" } as RunEvent
    const events = [started, answered("charge"), granted, toolStarted, completed, answered(), done]
    assert.deepStrictEqual(invariants(events), ["approvedOnly"])
  })

  it("finds arguments that differ from the approved ones", () => {
    assert.deepStrictEqual(invariants(sound, { effects: [{ ...effect, arguments: { amount: 2 } }] }), [
      "asApproved"
    ])
    const edited: RunEvent = { ...decided, decision: { ...approve, digest: "of something else" } } as RunEvent
    assert.include(invariants(sound.map((event) => (event === decided ? edited : event))), "asApproved")
  })

  it("finds a request that was decided twice", () => {
    assert.include(invariants(inserted({ ...decided, at: 5 } as RunEvent, decided)), "oneDecision")
  })

  it("finds a decision on a request that was not opened", () => {
    assert.include(invariants(without(opened)), "oneDecision")
  })

  it("finds events after the end of a run, except a revoked grant", () => {
    assert.deepStrictEqual(invariants([...sound, answered()]), ["terminal"])
    assert.deepStrictEqual(
      invariants([...sound, { _tag: "grant.revoked", at: 9, grantId: "g", by: "ann" } as RunEvent]),
      []
    )
  })

  it("finds a model request while a call is open", () => {
    assert.include(invariants(without(completed)), "validHistory")
  })

  it("finds acknowledged events, decisions and ends that are missing", () => {
    const found = (acknowledged: RunChecker.Acknowledged) => invariants(beforeDecision, { acknowledged })
    assert.deepStrictEqual(found({ appended: [{ runId, revision: 5, events: [decided] }] }), ["acknowledged"])
    assert.deepStrictEqual(found({ decisions: [{ runId, decision: approve }] }), ["acknowledged"])
    assert.deepStrictEqual(found({ ended: [{ runId, status: "completed" }] }), ["terminal"])
  })

  it("accepts an acknowledged decision that waits for delivery", () => {
    const inbox = { open: [], undelivered: [{ runId, decision: approve }] }
    const acknowledged = { decisions: [{ runId, decision: approve }] }
    assert.deepStrictEqual(check(beforeDecision, { acknowledged, inbox }), [])
  })

  it("finds a decision that was acknowledged with a different one", () => {
    const requests = (...asked: ReadonlyArray<DecisionInput>) =>
      check(sound, {
        acknowledged: { decisions: asked.map((asked) => ({ runId, decision: approve, asked })) }
      })
    const { at: _, ...asked } = approve
    assert.deepStrictEqual(requests(asked), [])
    assert.deepStrictEqual(requests(asked, { ...asked, by: "bob" }), [
      {
        invariant: "oneDecision",
        runId,
        detail: "approve by bob on run.r1 was acknowledged with approve by ann"
      }
    ])
    assert.deepStrictEqual(requests(asked, { _tag: "deny", requestId, by: "ann" }), [
      {
        invariant: "oneDecision",
        runId,
        detail: "deny by ann on run.r1 was acknowledged with approve by ann"
      }
    ])
    for (const other of [{ arguments: { amount: 2 } }, { note: "At once." }, { idempotencyKey: "k" }]) {
      assert.lengthOf(requests({ ...asked, ...other }), 1)
    }
    const service = { id: "ann", kind: "service" } as const
    assert.lengthOf(requests({ ...asked, by: service }), 1)
  })

  it("finds a decision after the expiry of its request", () => {
    const deciding = (decision: Decision, expiring: Interruption) =>
      [
        started,
        answered("charge"),
        classified,
        { _tag: "request.opened", at: 3, request: expiring },
        held,
        { _tag: "request.decided", at: 5, decision }
      ] satisfies ReadonlyArray<RunEvent>
    const expiring = { ...approval, expiresAt: 4 }
    assert.deepStrictEqual(check(deciding(approve, expiring)), [
      { invariant: "oneDecision", runId, detail: "event 6: run.r1 is decided by ann after it had expired" }
    ])
    assert.deepStrictEqual(check(deciding({ ...approve, at: 3 }, expiring)), [])
    assert.deepStrictEqual(check(deciding(approve, { ...expiring, onExpiry: "stay" })), [])
    const expired = { _tag: "deny", requestId, by: "expiry", at: 4 } as const
    assert.deepStrictEqual(check(deciding(expired, expiring)), [])
  })

  it("accepts a decision that is repeated without its digest", () => {
    const { at: _, digest: __, ...asked } = approve
    const acknowledged = { decisions: [{ runId, decision: approve, asked }] }
    assert.deepStrictEqual(check(sound, { acknowledged }), [])
  })

  it("accepts an approval with edited arguments to which the runtime adds a schema, and finds other arguments", () => {
    const edited = { ...approve, arguments: { amount: 2 } }
    const { at: _, ...asked } = edited
    const acknowledged = { decisions: [{ runId, decision: { ...edited, schema: "1hp2yye" }, asked }] }
    assert.notInclude(invariants(sound, { acknowledged }), "oneDecision")
    const others = { decisions: [{ runId, decision: edited, asked: { ...asked, arguments: { amount: 3 } } }] }
    assert.include(invariants(sound, { acknowledged: others }), "oneDecision")
  })

  it("finds an acknowledged decision missing from a completed run, but not from a cancelled one", () => {
    const other = { ...approve, requestId: "run.r2" as RequestId }
    const acknowledged = { decisions: [{ runId, decision: other }] }
    assert.deepStrictEqual(check(sound, { acknowledged }), [
      { invariant: "acknowledged", runId, detail: "the acknowledged decision on run.r2 is gone" }
    ])
    const cancelled: RunEvent = { _tag: "run.cancelled", at: 8, reason: "No.", calls: [] }
    assert.deepStrictEqual(check([...sound.slice(0, -1), cancelled], { acknowledged }), [])
  })

  const said = { messageId: "m1", content: [{ _tag: "text", text: "And this." }], at: 5 } as const
  const taken: RunEvent = { _tag: "message.queued", ...said, at: 6 }

  it("accepts an acknowledged message in the journal or the inbox, and finds a missing one", () => {
    const acknowledged = { messages: [{ runId, message: said }] }
    const waiting = { open: [], undelivered: [], messages: [{ runId, message: said }] }
    const taking = inserted(taken, toolStarted)
    assert.deepStrictEqual(check(sound.slice(0, -1), { acknowledged, inbox: waiting }), [])
    assert.deepStrictEqual(check(taking, { acknowledged, inbox: { ...waiting, messages: [] } }), [])
    assert.deepStrictEqual(check(sound, { acknowledged }), [
      { invariant: "acknowledged", runId, detail: "the acknowledged message m1 is gone" }
    ])
    const another = [{ runId, message: { ...said, messageId: "m2" } }]
    assert.deepStrictEqual(invariants(taking, { acknowledged: { messages: another } }), ["acknowledged"])
  })

  it("finds a message that was taken twice, or that is both in the inbox and in the journal", () => {
    const child: RunEvent = { _tag: "child.advanced", at: 6, callId, event: taken }
    for (const again of [taken, child]) {
      const twice = [...inserted(taken, toolStarted).slice(0, 9), again]
      assert.include(invariants(twice), "oneMessage")
    }
    const waiting = { open: [], undelivered: [], messages: [{ runId, message: said }] }
    assert.deepStrictEqual(check(inserted(taken, toolStarted), { inbox: waiting }), [
      { invariant: "oneMessage", runId, detail: "the message m1 waits and is in the journal" }
    ])
  })

  it("finds a waiting message in a completed run, but not in a cancelled or failed one", () => {
    const inbox = { open: [], undelivered: [], messages: [{ runId, message: said }] }
    assert.deepStrictEqual(check(sound, { inbox }), [
      { invariant: "oneMessage", runId, detail: "the message m1 waits in a completed run" }
    ])
    const failure = { _tag: "RunDefect", description: "It broke." } as const
    for (const end of [
      { _tag: "run.cancelled", at: 8, reason: "No.", calls: [] },
      { _tag: "run.failed", at: 8, failure }
    ] as const) {
      assert.deepStrictEqual(check([...sound.slice(0, -1), end], { inbox }), [])
    }
  })

  it("finds events after the failure of a run, except a revoked grant or a continuation", () => {
    const failed: RunEvent = {
      _tag: "run.failed",
      at: 8,
      failure: { _tag: "RunDefect", description: "It broke." }
    }
    const failing = [...sound.slice(0, -1), failed]
    const limited: RunEvent = { _tag: "limits.changed", at: 9, limits: Limits.defaults }
    assert.deepStrictEqual(check(failing), [])
    assert.deepStrictEqual(check([...failing, limited]), [
      { invariant: "terminal", runId, detail: "its last event is limits.changed and it has failed" }
    ])
    assert.deepStrictEqual(check([...failing, limited, { ...resumed, at: 9 } as RunEvent]), [])
    const revoked: RunEvent = { _tag: "grant.revoked", at: 9, grantId: "g", by: "ann" } as RunEvent
    assert.deepStrictEqual(check([...failing, revoked]), [])
  })

  it("compares the inbox with the open requests of the journals", () => {
    const inbox = (...open: ReadonlyArray<Interruption>) => ({
      inbox: { open: open.map((request) => ({ runId, request })), undelivered: [] }
    })
    assert.deepStrictEqual(check(beforeDecision, inbox(approval)), [])
    assert.deepStrictEqual(invariants(beforeDecision, inbox()), ["inbox"])
    assert.deepStrictEqual(invariants(beforeDecision, inbox({ ...approval, arguments: { amount: 2 } })), [
      "inbox"
    ])
    assert.deepStrictEqual(invariants(sound, inbox(approval)), ["inbox"])
  })

  it("finds a secret without repeating it", () => {
    const [violation] = check(sound, { secrets: { values: ["sesame"], texts: ["open sesame"] } })
    assert.strictEqual(violation?.invariant, "secret")
    assert.notInclude(violation?.detail ?? "", "sesame")
  })

  it("escapes control characters in its reports", () => {
    const said = { messageId: "m\u001b[2K\u202e\n1", content: [], at: 5 } as const
    assert.deepStrictEqual(check(sound, { acknowledged: { messages: [{ runId, message: said }] } }), [
      {
        invariant: "acknowledged",
        runId,
        detail: "the acknowledged message m\\u{1b}[2K\\u{202e}\\n1 is gone"
      }
    ])
  })
})
