import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import * as fc from "fast-check"
import { repeats } from "../../../../scripts/internal/effort.ts"
import * as Agent from "../../src/agent/Agent.ts"
import * as Runtime from "../../src/agent/Runtime.ts"
import * as ControlPlane from "../../src/control/ControlPlane.ts"
import type { RuntimeCommand } from "../../src/control/RuntimeCommand.ts"
import type { RuntimeEventEnvelope } from "../../src/control/RuntimeEventEnvelope.ts"
import type { SessionId } from "../../src/domain/Id.ts"
import * as RunStore from "../../src/store/RunStore.ts"
import * as ScriptedModel from "../../src/testing/ScriptedModel.ts"
import * as Tool from "../../src/tool/Tool.ts"
import { linesOf, problemsOf } from "./following.ts"

/** A step of a random front end. Indices choose among what there is when the step is taken. */
type Step =
  | { readonly _tag: "prompt"; readonly session: number; readonly queue: boolean }
  | { readonly _tag: "decide"; readonly request: number; readonly decision: "approve" | "deny" | "stop" }
  | { readonly _tag: "cancel"; readonly task: number }
  | { readonly _tag: "policy"; readonly mode: "ask" | "all" | "none" }
  | { readonly _tag: "new" }
  | { readonly _tag: "resume"; readonly session: number }
  | { readonly _tag: "rename" }
  | { readonly _tag: "switch" }
  | { readonly _tag: "delete"; readonly session: number }
  | { readonly _tag: "compact"; readonly session: number }
  | { readonly _tag: "subscribe"; readonly from: number }
  | { readonly _tag: "read"; readonly subscriber: number; readonly count: number }
  | { readonly _tag: "pause"; readonly turns: number }
  /** The scope of the plane closes, and another plane on the same store takes over. */
  | { readonly _tag: "restart" }

const index = fc.nat({ max: 7 })
const step: fc.Arbitrary<Step> = fc.oneof(
  {
    weight: 5,
    arbitrary: fc.record({ _tag: fc.constant("prompt" as const), session: index, queue: fc.boolean() })
  },
  {
    weight: 5,
    arbitrary: fc.record({
      _tag: fc.constant("decide" as const),
      request: index,
      decision: fc.constantFrom("approve" as const, "deny" as const, "stop" as const)
    })
  },
  { weight: 2, arbitrary: fc.record({ _tag: fc.constant("cancel" as const), task: index }) },
  fc.record({
    _tag: fc.constant("policy" as const),
    mode: fc.constantFrom("ask" as const, "all" as const, "none" as const)
  }),
  fc.constant({ _tag: "new" as const }),
  fc.record({ _tag: fc.constant("resume" as const), session: index }),
  fc.constant({ _tag: "rename" as const }),
  fc.constant({ _tag: "restart" as const }),
  fc.constant({ _tag: "switch" as const }),
  fc.record({ _tag: fc.constant("delete" as const), session: index }),
  fc.record({ _tag: fc.constant("compact" as const), session: index }),
  { weight: 2, arbitrary: fc.record({ _tag: fc.constant("subscribe" as const), from: fc.nat({ max: 60 }) }) },
  {
    weight: 3,
    arbitrary: fc.record({
      _tag: fc.constant("read" as const),
      subscriber: index,
      count: fc.integer({ min: 1, max: 40 })
    })
  },
  {
    weight: 4,
    arbitrary: fc.record({ _tag: fc.constant("pause" as const), turns: fc.integer({ min: 1, max: 20 }) })
  }
)

const pick = <A>(from: ReadonlyArray<A>, at: number): A | undefined => from[at % Math.max(1, from.length)]

/** A model that answers by the prompt: text in pieces, calls, or both. */
const answers = Array.from({ length: 400 }, (_, number): ScriptedModel.Script =>
  number % 3 === 0
    ? { text: `Working on ${number}. `, chunkSize: 3, calls: [{ tool: "pay" }, { tool: "look" }] }
    : { text: `Answer number ${number} in some words.`, chunkSize: 2 }
)

const look = Tool.make("look", {
  safety: "readOnly",
  handler: (_, { output, progress }: Parameters<NonNullable<Tool.AnyTool["options"]["handler"]>>[1]) => {
    progress("looking")
    output("out\n")
    output({ stream: "stderr", chunk: "err\n" })
    return "seen"
  }
})
const clerk = Agent.make("clerk", { tools: [Tool.make("pay", { handler: () => "paid" }), look] })

interface Reader {
  readonly from: number
  readonly read: Array<RuntimeEventEnvelope>
  readonly next: (count: number) => Effect.Effect<void>
  readonly rest: Effect.Effect<void>
}

/** A subscriber that reads on demand. */
const readerOf = (plane: ControlPlane.Shape, from: number) =>
  Effect.map(Stream.toPull(plane.events(from)), (pull): Reader => {
    const read: Array<RuntimeEventEnvelope> = []
    let isOver = false
    const take = Effect.match(pull, {
      onSuccess: (chunk) => void read.push(...chunk),
      onFailure: () => {
        isOver = true
      }
    })
    return {
      from,
      read,
      next: (count) =>
        Effect.gen(function* () {
          const goal = read.length + count
          while (!isOver && read.length < goal) {
            const { seq } = yield* plane.snapshot
            if ((read.at(-1)?.seq ?? from - 1) >= seq) return
            yield* take
          }
        }),
      rest: Effect.gen(function* () {
        while (!isOver) yield* take
      })
    }
  })

const act = (plane: ControlPlane.Shape, one: Step, readers: Array<Reader>) =>
  Effect.gen(function* () {
    const submit = (command: RuntimeCommand) => Effect.exit(plane.submit(command))
    const { sessions } = yield* plane.snapshot
    const tasks = sessions.flatMap(({ task }) => (task === undefined ? [] : [task]))
    switch (one._tag) {
      case "prompt": {
        const session = pick(sessions, one.session)
        return yield* submit({
          _tag: "SubmitPrompt",
          prompt: "Go on",
          ...(session === undefined ? {} : { sessionId: session.sessionId }),
          whenActive: one.queue ? "queue" : "reject"
        })
      }
      case "decide": {
        const request = pick(
          tasks.flatMap(({ requests }) => requests),
          one.request
        )
        if (request === undefined) return
        const decision =
          one.decision === "approve"
            ? { _tag: "approve" as const }
            : {
                _tag: "deny" as const,
                then: one.decision === "stop" ? ("stop" as const) : ("continue" as const)
              }
        return yield* submit({ _tag: "Approve", approvalId: request.requestId, decision })
      }
      case "cancel": {
        const task = pick(tasks, one.task)
        return task === undefined ? undefined : yield* submit({ _tag: "CancelTask", taskId: task.taskId })
      }
      case "policy":
        return yield* submit({ _tag: "SetApprovalPolicy", policy: { mode: one.mode } })
      case "new":
        return yield* submit({ _tag: "SessionNew" })
      case "resume": {
        const session = pick(sessions, one.session)
        return session === undefined
          ? undefined
          : yield* submit({ _tag: "SessionResume", sessionId: session.sessionId })
      }
      case "rename":
        return yield* submit({ _tag: "SessionRename", title: "A title" })
      case "switch":
        return yield* submit({ _tag: "SwitchModel", profile: "other" })
      case "delete": {
        const session = pick(sessions, one.session)
        return session === undefined
          ? undefined
          : yield* submit({ _tag: "SessionDelete", sessionId: session.sessionId })
      }
      case "compact": {
        const session = pick(sessions, one.session)
        return session === undefined
          ? undefined
          : yield* submit({ _tag: "SessionCompact", sessionId: session.sessionId })
      }
      case "restart":
        return yield* submit({ _tag: "SessionResumeLast" })
      case "subscribe":
        return void readers.push(yield* readerOf(plane, Math.max(1, one.from)))
      case "read":
        return yield* pick(readers, one.subscriber)?.next(one.count) ?? Effect.void
      case "pause":
        for (let turn = 0; turn < one.turns; turn += 1) yield* Effect.yieldNow
    }
  })

/** Plays the steps of each epoch in a plane of its own. The last epoch ends with `Shutdown`, the others with their scopes. */
const play = (steps: ReadonlyArray<Step>, keepEvents: number) =>
  Effect.gen(function* () {
    const epochs: Array<Array<Step>> = [[]]
    for (const one of steps) {
      if (one._tag === "restart") epochs.push([one])
      else epochs.at(-1)!.push(one)
    }
    const played: Array<Effect.Success<ReturnType<typeof playEpoch>>> = []
    for (const [index, epoch] of epochs.entries())
      played.push(yield* playEpoch(epoch, keepEvents, index === epochs.length - 1))
    return played
  })

const playEpoch = (steps: ReadonlyArray<Step>, keepEvents: number, isLast: boolean) =>
  Effect.gen(function* () {
    const { layer } = ScriptedModel.make(answers)
    const runtime = yield* Effect.provide(Runtime.make({ agent: clerk }), layer)
    const scope = yield* Scope.make()
    const plane = yield* Scope.provide(ControlPlane.make({ agents: [runtime], keepEvents }), scope)
    const all: Array<RuntimeEventEnvelope> = []
    const live = yield* Effect.forkChild(
      Stream.runForEach(plane.events(), (envelope) => Effect.sync(() => all.push(envelope))),
      { startImmediately: true }
    )
    const readers = [yield* readerOf(plane, 1)]
    for (const one of steps) yield* act(plane, one, readers)
    if (isLast) yield* plane.submit({ _tag: "Shutdown" })
    yield* Scope.close(scope, Exit.void)
    yield* Fiber.join(live)
    for (const { rest } of readers) yield* rest
    readers.push(yield* readerOf(plane, 1))
    yield* readers.at(-1)!.rest
    return { all, readers }
  }).pipe(Effect.scoped)

/** The text of each answer and output, as a front end joins the parts. */
const textsOf = (
  timeline: ReadonlyArray<RuntimeEventEnvelope>,
  isKept: (envelope: RuntimeEventEnvelope) => boolean
): ReadonlyMap<string, string> => {
  const texts = new Map<string, string>()
  for (const { event } of timeline.filter(isKept)) {
    if (event._tag === "model.textDelta") {
      const key = `${event.agentRunId} ${event.turn}`
      texts.set(key, (texts.get(key) ?? "").slice(0, event.offset) + event.delta)
    } else if (event._tag === "tool.output") {
      const key = `${event.callId} ${event.stream}`
      texts.set(key, (texts.get(key) ?? "").slice(0, event.offset) + event.chunk)
    }
  }
  return texts
}

const bare = (envelope: RuntimeEventEnvelope) => JSON.stringify({ ...envelope, merged: undefined })

for (const isStored of [false, true])
  describe(`timelines ${isStored ? "with" : "without"} a store`, () => {
    it.effect(
      "are gapless, ordered and end each task once, for every sequence of commands and for slow and late subscribers",
      () =>
        Effect.promise(() =>
          fc.assert(
            fc.asyncProperty(
              fc.array(step, { maxLength: 40 }),
              fc.constantFrom(4, 4096),
              async (steps, keepEvents) => {
                const played = play(steps, keepEvents)
                const epochs = await Effect.runPromise(
                  isStored ? Effect.provide(played, RunStore.layerMemory) : played
                )
                for (const { all, readers } of epochs) {
                  const report = () => `\n${linesOf(all)}`
                  const problems = problemsOf(all)
                  assert.deepStrictEqual(problems, [], problems.join("\n") + report())
                  // The events of a deleted session cannot be read again.
                  const deleted = new Set(
                    all.flatMap(({ event }) => (event._tag === "session.deleted" ? [event.sessionId] : []))
                  )
                  const isKept = ({ event }: RuntimeEventEnvelope) =>
                    event._tag === "session.deleted" ||
                    !("sessionId" in event && deleted.has(event.sessionId as SessionId))
                  const durable = all
                    .filter((envelope) => !("offset" in envelope.event) && isKept(envelope))
                    .map(bare)
                  for (const { from, read } of readers) {
                    const begins = Math.min(from, all.at(-1)!.seq + 1)
                    let last = begins - 1
                    for (const { merged = 1, seq } of read) {
                      assert.strictEqual(seq - merged, last, `a subscriber from ${from}${report()}`)
                      last = seq
                    }
                    const own = new Set(read.map(bare))
                    const missing = durable.filter(
                      (line) => JSON.parse(line).seq >= begins && !own.has(line) && !isTransientLine(line)
                    )
                    assert.deepStrictEqual(missing, [], `a subscriber from ${from}${report()}`)
                    if (begins !== 1) continue
                    assert.deepStrictEqual(textsOf(read, isKept), textsOf(all, isKept), report())
                  }
                }
              }
            ),
            { numRuns: repeats(40) }
          )
        ),
      120_000
    )
  })

const isTransientLine = (line: string): boolean => {
  const { event } = JSON.parse(line) as RuntimeEventEnvelope
  return (
    event._tag === "tool.progress" ||
    event._tag === "model.requestStarted" ||
    event._tag === "model.requestRetried"
  )
}
