import { assert, describe, it } from "@effect/vitest"
import { defaults } from "../../src/domain/Limits.ts"
import { type Step, next } from "../../src/domain/next.ts"
import type { RunEvent } from "../../src/domain/RunEvent.ts"
import {
  allowed,
  answered,
  askedAbout,
  at,
  begun,
  broke,
  callId,
  calls,
  cancelled,
  childStarted,
  completed,
  decided,
  delegated,
  done,
  failed,
  fold,
  inDoubt,
  inside,
  limit,
  login,
  opened,
  read,
  requestId,
  resumed,
  started
} from "./Journal.ts"

const a = callId(1, 1)
const b = callId(1, 2)
const c = callId(1, 3)
const d = callId(1, 4)
const r1 = requestId(1)

const told = (step: Step): string => {
  switch (step._tag) {
    case "ClassifyCalls":
    case "SettleToolCalls":
    case "Reconcile":
    case "RecordResults":
    case "ResumeChildren":
      return `${step._tag} ${step.callIds.map((id) => id.slice(-1)).join("")}`
    case "StartBackground":
    case "SettleAgents":
    case "HandOff":
      return `${step._tag} ${step.callId.slice(-1)}`
    case "AwaitChildren":
      return step._tag
    case "Withdraw":
      return `Withdraw ${step.requests.map((request) => request.requestId).join(" ")}`
    case "AskWrapUp":
      return `AskWrapUp ${step.exceeded.budget}`
    case "CallModel":
    case "Compact":
      return `${step._tag} ${step.turn}`
    case "AskLimit":
      return `AskLimit ${step.exceeded.budget} ${step.exceeded.spent}/${step.exceeded.limit}`
    case "DecodeOutput":
      return `DecodeOutput ${step.text}`
    case "Hold":
      return `Hold ${step.requests.map((request) => request.requestId).join(" ")}`
    case "Finish":
      return step.end._tag === "failed" ? `failed ${step.end.failure._tag}` : step.end._tag
  }
}

const four = [started(), calls("w", "x", "y", "z")]
const oneTurn = { ...defaults, maxTurns: 1 }
const oneTurnUsed = [calls("read"), read(a), begun(a), completed(a)]

const table: ReadonlyArray<readonly [title: string, step: string, events: ReadonlyArray<RunEvent>]> = [
  ["calls the model after the prompt", "CallModel 1", [started()]],
  ["classifies all calls of an answer together", "ClassifyCalls 1234", four],
  ["classifies calls that a crash left unclassified", "ClassifyCalls 234", [...four, read(a)]],
  ["completes after an answer without calls", "completed", [started(), answered("Done.")]],
  ["completes after an empty answer", "completed", [started(), answered([])]],
  [
    "decodes the answer of an agent with an output schema",
    "DecodeOutput 42",
    [started({ structured: true }), answered("42")]
  ],
  [
    "calls the model again after a rejected output",
    "CallModel 2",
    [started({ structured: true }), answered("x"), { _tag: "output.rejected", at, message: "No." }]
  ],
  ["runs contiguous reads together", "SettleToolCalls 12", [...four, read(a), read(b), allowed(c), read(d)]],
  [
    "runs a side-effecting call alone",
    "SettleToolCalls 1",
    [...four, allowed(a), allowed(b), read(c), read(d)]
  ],
  [
    "lets reads pass an undecided call, and no side-effecting call",
    "SettleToolCalls 24",
    [...four, ...askedAbout(a, r1), read(b), allowed(c), read(d)]
  ],
  [
    "holds the run when the open calls are behind an undecided one",
    "Hold run-1.r1",
    [
      ...four,
      ...askedAbout(a, r1),
      read(b),
      allowed(c),
      read(d),
      begun(b),
      begun(d),
      completed(b),
      completed(d)
    ]
  ],
  [
    "runs calls before an undecided call",
    "SettleToolCalls 1",
    [...four, allowed(a), ...askedAbout(b, r1), allowed(c), failed(d)]
  ],
  [
    "runs the call after a denied one",
    "SettleToolCalls 2",
    [
      started(),
      calls("w", "x"),
      ...askedAbout(a, r1),
      allowed(b),
      decided({ _tag: "deny", requestId: r1, by: "ada" })
    ]
  ],
  [
    "reconciles bodies started by a dead process before anything else",
    "Reconcile 12",
    [...four, read(a), read(b), begun(a), begun(b)]
  ],
  [
    "holds the run on a call in doubt",
    "Hold run-1.r1",
    [started(), calls("w", "x"), allowed(a), allowed(b), begun(a), opened(inDoubt(a, r1))]
  ],
  [
    "starts sub-agents together",
    "ResumeChildren 12",
    [started(), calls("w", "x"), delegated(a), delegated(b)]
  ],
  [
    "resumes a sub-agent that is not held",
    "ResumeChildren 1",
    [started(), calls("w"), delegated(a), childStarted(a), inside(a, calls("w"))]
  ],
  [
    "lets reads pass a held sub-agent",
    "SettleToolCalls 3",
    [
      started(),
      calls("w", "x", "y"),
      delegated(a),
      allowed(b),
      read(c),
      childStarted(a),
      inside(a, calls("w")),
      ...askedAbout(callId(1, 1, a), requestId(1, a), { runId: a as never }).map((event) => inside(a, event))
    ]
  ],
  [
    "opens a limit request for more turns in a run that can ask",
    "AskLimit turns 1/1",
    [started({ limits: oneTurn }), ...oneTurnUsed]
  ],
  [
    "fails in a run that cannot ask for more turns",
    "failed BudgetExceeded",
    [started({ limits: oneTurn, asks: false }), ...oneTurnUsed]
  ],
  [
    "holds the run on its limit request",
    "Hold run-1.r1",
    [started({ limits: oneTurn }), ...oneTurnUsed, opened(limit(r1, "turns", 1))]
  ],
  [
    "continues the same turn after a top-up",
    "CallModel 2",
    [
      started({ limits: oneTurn }),
      ...oneTurnUsed,
      opened(limit(r1, "turns", 1)),
      decided({ _tag: "topUp", requestId: r1, by: "ada", limit: 5 })
    ]
  ],
  [
    "fails after a denied top-up",
    "failed BudgetExceeded",
    [
      started({ limits: oneTurn }),
      ...oneTurnUsed,
      opened(limit(r1, "turns", 1)),
      decided({ _tag: "deny", requestId: r1, by: "ada" })
    ]
  ],
  [
    "continues after a denied top-up once the limit is raised",
    "CallModel 2",
    [
      started({ limits: oneTurn }),
      ...oneTurnUsed,
      opened(limit(r1, "turns", 1)),
      decided({ _tag: "deny", requestId: r1, by: "ada" }),
      broke,
      resumed,
      { _tag: "limits.changed", at, limits: defaults }
    ]
  ],
  [
    "opens a limit request before it classifies too many calls",
    "AskLimit toolCalls 2/1",
    [started({ limits: { ...defaults, maxToolCalls: 1 } }), calls("w", "x")]
  ],
  [
    "fails after a denied top-up for tool calls",
    "failed BudgetExceeded",
    [
      started({ limits: { ...defaults, maxToolCalls: 1 } }),
      calls("w", "x"),
      opened(limit(r1, "toolCalls", 1, 2)),
      decided({ _tag: "deny", requestId: r1, by: "ada" })
    ]
  ],
  [
    "opens a limit request for money when the price is known",
    "AskLimit cost 0.01/0.01",
    [started({ limits: { ...defaults, maxCostUsd: 0.01 } }), ...oneTurnUsed]
  ],
  [
    "fails when the price is unknown",
    "failed BudgetExceeded",
    [
      started({ limits: { ...defaults, maxCostUsd: 1 } }),
      {
        _tag: "model.answered",
        at,
        content: [{ _tag: "toolCall", providerCallId: "", name: "read", arguments: "{}" }],
        usage: { inputTokens: 1, outputTokens: 1 },
        finishReason: "toolCalls"
      },
      failed(a)
    ]
  ],
  ["holds the run on a login", "Hold run-1.r1", [started(), opened(login(r1))]],
  [
    "calls the model again after a login",
    "CallModel 1",
    [started(), opened(login(r1)), decided({ _tag: "retry", requestId: r1, by: "ada" })]
  ],
  [
    "cancels the run when a login is denied",
    "cancelled",
    [started(), opened(login(r1)), decided({ _tag: "deny", requestId: r1, by: "ada" })]
  ],
  ["stays completed", "completed", [started(), answered("Done."), done]],
  ["stays cancelled", "cancelled", [started(), calls("w"), cancelled]],
  ["stays failed until it is resumed", "failed RunDefect", [started(), broke]],
  ["calls the model again when a failed run is resumed", "CallModel 1", [started(), broke, resumed]]
]

describe("next", () => {
  for (const [title, step, events] of table) {
    it(`${title}`, () => {
      assert.strictEqual(told(next(fold(...events))), step)
    })
  }
})
