/** Archives of impossible runs: they are refused with the reason, and nothing is written. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { TestClock } from "effect/testing"
import * as Agent from "../../src/agent/Agent.ts"
import type { DecisionInput } from "../../src/domain/Decision.ts"
import type { RequestId, RunId } from "../../src/domain/Id.ts"
import { text } from "../../src/domain/Message.ts"
import { type RunEvent, unwrap } from "../../src/domain/RunEvent.ts"
import { exportRun, importRun, type RunArchive } from "../../src/durable/archive.ts"
import { cancelRun } from "../../src/durable/cancelRun.ts"
import { decideStored } from "../../src/durable/decideStored.ts"
import { runPromptStored } from "../../src/durable/runPromptStored.ts"
import { sendMessage } from "../../src/durable/sendMessage.ts"
import { layerMemory, RunStore } from "../../src/store/RunStore.ts"
import { approve, bind, call, expect, probe, rebind } from "../helpers/Fixture.ts"

const inOneStore = <A, E>(body: Effect.Effect<A, E, RunStore>) =>
  Effect.provide(body, Layer.fresh(layerMemory))

const runId = "run" as RunId
const helper = () => Agent.make("helper", { tools: [probe("erase").tool] })
const lead = () =>
  Agent.make("lead", {
    tools: [probe("write").tool, probe("soon", { approval: { expiresIn: "1 hour" } }).tool],
    subAgents: [helper()]
  })

/** The archive of a run with one applied decision, one pending decision and one pending message. */
const archived = inOneStore(
  Effect.gen(function* () {
    const { model, runtime } = yield* bind(lead(), [
      { calls: [call("write", "1"), call("soon", "2")] },
      "done"
    ])
    const store = yield* RunStore
    expect(yield* runPromptStored(runtime, { prompt: "go", runId }), "interrupted")
    yield* decideStored([runtime], approve((yield* store.request("run.r1" as RequestId)).request))
    expect(yield* runPromptStored(runtime, { runId }), "interrupted")
    yield* decideStored([runtime], approve((yield* store.request("run.r2" as RequestId)).request))
    yield* sendMessage(runId, "Quick.", { messageId: "m1" })
    return { model, text: JSON.stringify(yield* exportRun(runId)) }
  })
)

/** The archive of a run whose sub-agent waits for an approval. */
const ofSubAgent = inOneStore(
  Effect.gen(function* () {
    const { model, runtime } = yield* bind(lead(), [
      { calls: [{ tool: "helper", arguments: { prompt: "Help." } }] },
      { calls: [call("erase", "3")] },
      "done",
      "done"
    ])
    expect(yield* runPromptStored(runtime, { prompt: "go", runId }), "interrupted")
    return { model, text: JSON.stringify(yield* exportRun(runId)) }
  })
)

interface Changed {
  decisions: Array<Record<string, unknown>>
  messages: Array<Record<string, unknown>>
  runs: Array<{ revision?: number; events: Array<RunEvent>; parent?: unknown }>
}

/** The archive with a change, and with matching event counts. */
const changed = (text: string, change: (archive: Changed) => void): unknown => {
  const archive = JSON.parse(text) as Changed
  change(archive)
  for (const run of archive.runs) run.revision = run.events.length
  return archive
}

const placeOf = (events: ReadonlyArray<RunEvent>, tag: RunEvent["_tag"], nth = 0): number =>
  events.map((event, index) => ({ index, tag: unwrap(event).event._tag })).filter((one) => one.tag === tag)[
    nth
  ]!.index

const without =
  (tag: RunEvent["_tag"], nth = 0) =>
  ({ runs: [run] }: Changed): void => {
    run!.events.splice(placeOf(run!.events, tag, nth), 1)
  }

const decidedIn = ({ runs: [run] }: Changed): Record<string, unknown> =>
  (run!.events[placeOf(run!.events, "request.decided")] as unknown as { decision: Record<string, unknown> })
    .decision

const openedIn = ({ runs: [run] }: Changed): Record<string, unknown> =>
  (run!.events[placeOf(run!.events, "request.opened")] as unknown as { request: Record<string, unknown> })
    .request

const usageIn = ({ runs: [run] }: Changed): Record<string, unknown> =>
  (run!.events[placeOf(run!.events, "model.answered")] as unknown as { usage: Record<string, unknown> }).usage

const noTime = (at: number) => `${at} is no time from 1970 on`
const noName = "a name in it is empty, or has a character that is no text"

const cases: ReadonlyArray<readonly [string, (archive: Changed) => void, string]> = [
  [
    "a pending decision on a request that was never opened",
    ({ decisions: [one] }) => Object.assign(one!, { requestId: "run.r9" }),
    "the run run has not asked the request run.r9"
  ],
  [
    "a pending decision on a request of another run",
    ({ decisions: [one] }) => Object.assign(one!, { requestId: "other.r1" }),
    "the run run has not asked the request other.r1"
  ],
  [
    "a pending decision on a request that its journal has decided",
    ({ decisions: [one] }) => Object.assign(one!, { requestId: "run.r1" }),
    "the request run.r1 was decided before"
  ],
  [
    "two pending decisions on one request",
    ({ decisions }) => decisions.push({ ...decisions[0]! }),
    "it decides the request run.r2 twice"
  ],
  [
    "a pending decision of the wrong kind",
    ({ decisions: [one] }) => Object.assign(one!, { _tag: "answer", answer: "yes" }),
    "the decision on run.r2 does not fit it"
  ],
  [
    "a request and its decision with a digest of other arguments",
    (archive) => {
      const digest = "0".repeat(64)
      Object.assign(openedIn(archive), { digest })
      Object.assign(decidedIn(archive), { digest })
    },
    "the request run.r1 has the digest of another tool, other arguments or other facts"
  ],
  [
    "a pending decision with a digest of other arguments",
    ({ decisions: [one] }) => Object.assign(one!, { digest: "other" }),
    "the decision on run.r2 does not fit it"
  ],
  [
    "an approval by expiry",
    ({ decisions: [one] }) => Object.assign(one!, { by: "expiry" }),
    "the request run.r2 is decided by expiry"
  ],
  [
    "a decision by a principal of kind `expiry`",
    ({ decisions: [one] }) => Object.assign(one!, { by: "x", principal: { id: "x", kind: "expiry" } }),
    "the request run.r2 is decided by expiry"
  ],
  [
    "a denial by expiry before the request expires",
    ({ decisions }) =>
      decisions.splice(0, 1, { _tag: "deny", requestId: "run.r2", by: "expiry", at: 3_600_000 }),
    "it expires at 1970-01-01T01:00:00.000Z"
  ],
  [
    "a decision by a reserved name",
    ({ decisions: [one] }) => Object.assign(one!, { by: "Policy" }),
    "the decision on run.r2 was made by no caller"
  ],
  [
    "a pending message twice",
    ({ messages }) => messages.push({ ...messages[0]! }),
    "it has the message m1 twice"
  ],
  [
    "a journal with a decision on a request that was never opened",
    (archive) => Object.assign(decidedIn(archive), { requestId: "run.r9" }),
    "the run run has not asked the request run.r9"
  ],
  [
    "a journal with the run's decision on a sub-agent's request",
    (archive) => Object.assign(decidedIn(archive), { requestId: "run.t1.3.r1" }),
    "the run run has not asked the request run.t1.3.r1"
  ],
  [
    "a journal with a decision that does not fit its request",
    (archive) => Object.assign(decidedIn(archive), { _tag: "retry" }),
    "the decision on run.r1 does not fit it"
  ],
  [
    "a journal with an approval by expiry",
    (archive) => Object.assign(decidedIn(archive), { by: "expiry" }),
    "the request run.r1 is decided by expiry, and it does not expire"
  ],
  [
    "a journal with two decisions on a request",
    ({ runs: [run] }) => {
      const place = placeOf(run!.events, "request.decided")
      run!.events.splice(place, 0, run!.events[place]!)
    },
    "the request run.r1 was decided before"
  ],
  [
    "a journal with the start of an undecided call",
    without("request.decided"),
    "the request run.r1 about the call run.t1.1 is not decided"
  ],
  [
    "a journal without the answer that made a call",
    without("model.answered"),
    "the run has not made the call"
  ],
  [
    "a journal without a request that it decides",
    without("request.opened"),
    "has not asked the request run.r1"
  ],
  [
    "a journal with a request opened twice",
    ({ runs: [run] }) => {
      const place = placeOf(run!.events, "request.opened")
      run!.events.splice(place, 0, run!.events[place]!)
    },
    "the request run.r1 was asked before"
  ],
  [
    "a journal with a request of another run",
    ({ runs: [run] }) => {
      const event = run!.events[placeOf(run!.events, "request.opened")] as unknown as { request: object }
      Object.assign(event.request, { requestId: "other.r1" })
    },
    "the request other.r1 has the id of another run"
  ],
  [
    "a journal that supersedes a request that was never opened",
    ({ runs: [run] }) =>
      run!.events.push({
        _tag: "request.superseded",
        at: 0,
        requestId: "run.r9" as RequestId,
        reason: "it is asked anew"
      }),
    "the run has not asked the request run.r9"
  ],
  [
    "a journal with a decision on a superseded request",
    ({ runs: [run] }) => {
      const requestId = "run.r1" as RequestId
      const place = placeOf(run!.events, "request.decided")
      run!.events.splice(place, 0, { _tag: "request.superseded", at: 0, requestId, reason: "it is over" })
    },
    "the request run.r1 was no longer open"
  ],
  [
    "a journal with a request about a call that is not open",
    ({ runs: [run] }) => {
      const event = run!.events[placeOf(run!.events, "request.opened")] as unknown as { request: object }
      Object.assign(event.request, { callId: "run.t1.9" })
    },
    "the request run.r1 is about the call run.t1.9, which is not open"
  ],
  [
    "a journal with the result of a call that was never made",
    ({ runs: [run] }) =>
      Object.assign(run!.events[placeOf(run!.events, "tool.completed")]!, { callId: "run.t1.9" }),
    "the run has not made the call run.t1.9"
  ],
  [
    "a journal with a message twice",
    ({ runs: [run] }) => {
      const event = { _tag: "message.queued", at: 0, content: [text("Again.")], messageId: "m0" } as const
      run!.events.push(event, event)
    },
    "the run has the message m0 already"
  ],
  [
    "a pending session grant for a sub-agent's tool",
    ({ decisions: [one], runs: [run] }) => {
      const event = run!.events[placeOf(run!.events, "request.opened", 1)] as unknown as { request: object }
      Object.assign(event.request, { agentPath: ["lead", "helper"] })
      Object.assign(one!, { grant: { scope: "session" } })
    },
    "the decision on run.r2 does not fit it"
  ],
  [
    "a journal with a second start of a finished call",
    ({ runs: [run] }) => {
      const start = run!.events[placeOf(run!.events, "tool.started")]!
      run!.events.splice(placeOf(run!.events, "tool.completed") + 1, 0, start)
    },
    "the call run.t1.1 has its result already"
  ],
  ...[-1, 1e308, 9e15].flatMap((at): typeof cases => [
    [`a pending message of the time ${at}`, ({ messages: [one] }) => Object.assign(one!, { at }), noTime(at)],
    [
      `a pending decision of the time ${at}`,
      ({ decisions: [one] }) => Object.assign(one!, { at }),
      noTime(at)
    ],
    [
      `events of the time ${at}`,
      (archive) => archive.runs[0]!.events.forEach((one) => Object.assign(one, { at })),
      noTime(at)
    ],
    [`a request of the time ${at}`, (archive) => Object.assign(openedIn(archive), { at }), noTime(at)],
    [`a decision of the time ${at}`, (archive) => Object.assign(decidedIn(archive), { at }), noTime(at)]
  ]),
  [
    "a request that expires before it was opened",
    (archive) => Object.assign(openedIn(archive), { expiresAt: -1 }),
    "it expires before it was opened"
  ],
  [
    "a request that expires at no time",
    (archive) => Object.assign(openedIn(archive), { expiresAt: 1e308 }),
    "its expiry is no time"
  ],
  ...["", "\ud800", "a\0b"].flatMap((name): typeof cases => [
    [
      `a request about the tool ${JSON.stringify(name)}`,
      (archive) => Object.assign(openedIn(archive), { tool: name }),
      noName
    ],
    [
      `a request of the agent ${JSON.stringify(name)}`,
      (archive) => Object.assign(openedIn(archive), { agentPath: [name] }),
      noName
    ],
    [
      `a run of the agent ${JSON.stringify(name)}`,
      (archive) => Object.assign(archive.runs[0]!, { agent: name }),
      noName
    ]
  ]),
  ...Object.entries({
    tool: "expiry",
    arguments: { id: "9" },
    facts: { price: 1 },
    safety: "readOnly",
    schema: "x",
    agentPath: ["lead", "helper"]
  }).map(([field, value]): (typeof cases)[number] => [
    `a request with another ${field} than its digest says`,
    (archive) => Object.assign(openedIn(archive), { [field]: value }),
    "the request run.r1 has the digest of another tool, other arguments or other facts"
  ]),
  [
    "an answer with a negative cost",
    (archive) => Object.assign(usageIn(archive), { costUsd: -1 }),
    "its cost is -1"
  ],
  [
    "an answer with negative tokens",
    (archive) => Object.assign(usageIn(archive), { inputTokens: -1 }),
    "form of an archive"
  ],
  [
    "a run with a parent that the archive lacks",
    ({ runs: [run] }) => Object.assign(run!.events[0]!, { parent: { runId: "other", revision: 1 } }),
    "do not add up to the runs that it names"
  ]
]

/** The archive of a completed run. */
const ofEnded = inOneStore(
  Effect.gen(function* () {
    const { model, runtime } = yield* bind(lead(), [{ calls: [call("write", "1")] }, "done"])
    expect(yield* runPromptStored(runtime, { prompt: "go", runId }), "interrupted")
    const store = yield* RunStore
    yield* decideStored([runtime], approve((yield* store.request("run.r1" as RequestId)).request))
    expect(yield* runPromptStored(runtime, { runId }), "completed")
    return { model, text: JSON.stringify(yield* exportRun(runId)) }
  })
)

const casesOfRunsThatEnded: typeof cases = [
  ["a journal without the result of a call", without("tool.completed"), "are not settled"],
  [
    "a completed run with an open call",
    ({ runs: [run] }) => {
      run!.events.splice(placeOf(run!.events, "tool.completed"))
      run!.events.push({ _tag: "run.completed", at: 0 })
    },
    "no open calls in a run that is completed"
  ],
  [
    "a completed run with a pending decision that its journal has",
    (archive) => archive.decisions.push({ ...decidedIn(archive) }),
    "the request run.r1 was decided before"
  ]
]

const casesOfSubAgents: typeof cases = [
  [
    "a denial by expiry of a sub-agent's request without an expiry",
    ({ decisions }) =>
      decisions.push({ _tag: "deny", requestId: "run.t1.1.r1", by: "expiry", at: 0, message: "late" }),
    "it does not expire"
  ],
  [
    "a journal with a sub-agent of a call that was never made",
    ({ runs: [run] }) => {
      for (const event of run!.events) {
        if (event._tag === "child.advanced") Object.assign(event, { callId: "run.t1.9" })
      }
    },
    "the run has not made the call run.t1.9"
  ],
  [
    "a journal with a sub-agent's request in the name of the run",
    ({ runs: [run] }) => {
      const { event } = unwrap(run!.events[placeOf(run!.events, "request.opened")]!)
      Object.assign((event as unknown as { request: object }).request, { runId: "run" })
    },
    "the request run.t1.1.r1 is of another run"
  ],
  [
    "a journal with the run's decision on a sub-agent's request",
    ({ runs: [run] }) => {
      const decision = { _tag: "approve", requestId: "run.t1.1.r1", by: "ann", at: 0 }
      run!.events.push({ _tag: "request.decided", at: 0, decision } as unknown as RunEvent)
    },
    "the run run has not asked the request run.t1.1.r1"
  ]
]

const refusals = [
  ...cases.map((one) => [archived, ...one] as const),
  ...casesOfRunsThatEnded.map((one) => [ofEnded, ...one] as const),
  ...casesOfSubAgents.map((one) => [ofSubAgent, ...one] as const)
]

describe("an impossible archive is refused, and nothing is written:", () => {
  for (const [given, title, change, problem] of refusals) {
    it.effect(title, () =>
      Effect.gen(function* () {
        const { text } = yield* given
        yield* inOneStore(
          Effect.gen(function* () {
            const store = yield* RunStore
            const error = yield* Effect.flip(importRun(changed(text, change)))
            assert.strictEqual(error._tag, "ArchiveInvalid")
            assert.include(error.message, problem)
            assert.include(error.message, "Nothing was written.")
            assert.deepStrictEqual(yield* store.list(), [])
            // Without the change, the archive is imported.
            yield* importRun(changed(text, () => {}))
          })
        )
      })
    )
  }

  it.effect("except a denial by expiry, pending or in the journal, which is imported", () =>
    Effect.gen(function* () {
      const { model, text } = yield* archived
      const undecided = changed(text, (archive) => archive.decisions.splice(0))
      const waiting = yield* inOneStore(
        Effect.gen(function* () {
          yield* importRun(undecided)
          yield* TestClock.adjust("2 hours")
          return JSON.stringify(yield* exportRun(runId))
        })
      )
      assert.include(JSON.stringify((JSON.parse(waiting) as RunArchive).decisions), `"by":"expiry"`)
      const journaled = yield* inOneStore(
        Effect.gen(function* () {
          yield* importRun(JSON.parse(waiting))
          const { runtime } = yield* rebind(lead(), model)
          expect(yield* runPromptStored(runtime, { runId }), "completed")
          return JSON.stringify(yield* exportRun(runId))
        })
      )
      assert.include(JSON.stringify((JSON.parse(journaled) as RunArchive).runs), `"by":"expiry"`)
      yield* inOneStore(importRun(JSON.parse(journaled)))
    })
  )

  it.effect("with a pending decision by expiry that differs from the denial of the expiry", () =>
    Effect.gen(function* () {
      const { text } = yield* archived
      yield* TestClock.adjust("2 hours")
      const denied = { _tag: "deny", requestId: "run.r2", by: "expiry", at: 3_600_000, message: "late" }
      for (const wrong of [
        { ...denied, _tag: "approve" },
        { ...denied, at: 3_599_999 },
        { ...denied, principal: { id: "expiry", kind: "expiry" } }
      ]) {
        const given = changed(text, ({ decisions }) => decisions.splice(0, 1, wrong))
        const error = yield* Effect.flip(inOneStore(importRun(given)))
        assert.include(error.message, "and can only be denied then")
      }
      yield* inOneStore(importRun(changed(text, ({ decisions }) => decisions.splice(0, 1, denied))))
    })
  )

  it.effect("except a grant in the journal that later versions refuse, which is imported", () =>
    Effect.gen(function* () {
      const { text } = yield* archived
      const given = changed(text, (archive) => {
        const { events } = archive.runs[0]!
        const asked = events[placeOf(events, "request.opened")] as unknown as { request: object }
        // The digest covers the last agent of the path.
        Object.assign(asked.request, { agentPath: ["helper", "lead"] })
        Object.assign(decidedIn(archive), { grant: { scope: "session" } })
      })
      yield* inOneStore(importRun(given))
    })
  )

  it.effect("except a cancelled run with a pending decision, which is imported", () =>
    Effect.gen(function* () {
      const { text } = yield* archived
      const ended = yield* inOneStore(
        Effect.gen(function* () {
          yield* importRun(changed(text, ({ decisions }) => decisions.splice(0)))
          yield* cancelRun(runId, "enough")
          return JSON.stringify(yield* exportRun(runId))
        })
      )
      const { decisions } = JSON.parse(text) as Changed
      yield* inOneStore(
        Effect.gen(function* () {
          yield* importRun(changed(ended, (archive) => archive.decisions.push(...decisions)))
          const refused = yield* Effect.flip(
            (yield* RunStore).decide({ _tag: "deny", requestId: "run.r2" as RequestId, by: "ben" })
          )
          assert.strictEqual(refused._tag, "AlreadyDecided")
        })
      )
    })
  )

  it.effect("except a pending decision on a sub-agent's request, which is imported and applied", () =>
    Effect.gen(function* () {
      const { model, text } = yield* ofSubAgent
      yield* inOneStore(
        Effect.gen(function* () {
          const store = yield* RunStore
          const decision: DecisionInput = {
            _tag: "approve",
            requestId: "run.t1.1.r1" as RequestId,
            by: "ann"
          }
          yield* importRun(changed(text, ({ decisions }) => decisions.push({ ...decision, at: 0 })))
          const { runtime } = yield* rebind(lead(), model)
          expect(yield* runPromptStored(runtime, { runId }), "completed")
          assert.deepStrictEqual(yield* store.pending(), [])
        })
      )
    })
  )
})
