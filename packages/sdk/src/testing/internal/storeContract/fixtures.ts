/**
 * What the contract of the run store is tested with: events, requests and decisions of no particular run.
 */
import type * as Arr from "effect/Array"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import type * as Scope from "effect/Scope"
import * as Id from "../../../domain/Id.ts"
import type { ToolApprovalItem, Interruption } from "../../../domain/Interruption.ts"
import * as Limits from "../../../domain/Limits.ts"
import { text } from "../../../domain/Message.ts"
import type { RunEvent } from "../../../domain/RunEvent.ts"
import { RunStore } from "../../../store/RunStore.ts"
import type { RunStoreError } from "../../../store/RunStoreError.ts"
import { type Lease } from "../../../store/RunStorePort.ts"

/** What the suites need of a test runner; `@effect/vitest` fits. */
export interface TestRunner {
  readonly describe: (name: string, body: () => void) => void
  readonly it: {
    readonly effect: (title: string, test: () => Effect.Effect<unknown, unknown, Scope.Scope>) => void
  }
  readonly assert: {
    readonly strictEqual: (actual: unknown, expected: unknown, message?: string) => void
    readonly deepStrictEqual: (actual: unknown, expected: unknown, message?: string) => void
    readonly isTrue: (value: unknown, message?: string) => void
  }
}

type Store = RunStore["Service"]

/** What the suite cannot do by itself; the sentences that need it are left out without it. */
export interface StoreHooks {
  /**
   * Sets the clock by which leases are judged back, or does what is the same to the leases that are there: moves the end of each so
   * much later.
   */
  readonly setBack?: (milliseconds: number) => Effect.Effect<unknown, unknown>
}

/** One group of the contract's sentences. */
export interface Group {
  readonly assert: TestRunner["assert"]
  readonly hooks: StoreHooks
  /** Tests one sentence with a fresh store. */
  readonly test: (title: string, body: (store: Store) => Effect.fn.Return<unknown, unknown>) => void
}

/** Runs groups of tests over a layer; each test builds its own. */
export const runGroups =
  (runner: TestRunner, groups: ReadonlyArray<(group: Group) => void>) =>
  (name: string, layer: Layer.Layer<RunStore, RunStoreError>, hooks: StoreHooks = {}): void =>
    runner.describe(`RunStore (${name})`, () => {
      const test: Group["test"] = (title, body) =>
        runner.it.effect(title, () =>
          Effect.flatMap(RunStore, (store) => Effect.gen(() => body(store))).pipe(
            Effect.provide(Layer.fresh(layer))
          )
        )
      for (const group of groups) group({ assert: runner.assert, hooks, test })
    })

export const run = (name: string): Id.RunId => Id.RunId.make(name)
export const session = (name: string): Id.SessionId => Id.SessionId.make(name)
export const rev = (revision: number): Id.Revision => Id.Revision.make(revision)

/** An event that changes nothing in the inbox. */
export const said = (text: string): RunEvent => ({
  _tag: "message.queued",
  at: 1,
  content: [{ _tag: "text", text }]
})

/** The start of a run that this agent answers. */
export const begun = (agent: string): RunEvent => ({
  _tag: "run.started",
  at: 0,
  runId: run("run_a"),
  sessionId: session("s1"),
  agent: { name: agent, instructions: "", tools: {} },
  agentPath: [agent],
  prompt: [text("go")],
  limits: Limits.defaults,
  policy: { mode: "ask" },
  asks: true,
  structured: false
})

/** The event with which this agent takes the conversation over. */
export const handedTo = (agent: string): RunEvent => ({
  _tag: "agent.changed",
  at: 1,
  agent: { name: agent, instructions: "", tools: {} },
  policy: { mode: "ask" },
  structured: false
})

/** `count` such events, numbered from `from`. */
export const manySaid = (count: number, from = 0): Arr.NonEmptyReadonlyArray<RunEvent> => [
  said(String(from)),
  ...Array.from({ length: count - 1 }, (_, index) => said(String(from + index + 1)))
]

/** Asks for an approval. */
export const approval = (
  runId: Id.RunId,
  index: number,
  fields: Partial<ToolApprovalItem> = {}
): ToolApprovalItem => ({
  _tag: "approval",
  requestId: Id.requestId(runId, index),
  runId,
  agentPath: ["root"],
  at: index,
  callId: Id.toolCallId(runId, 1, index),
  tool: "deploy",
  arguments: { index },
  digest: `digest ${index}`,
  safety: "sideEffecting",
  ...fields
})

/** Asks the user. */
export const question = (runId: Id.RunId, index: number): Interruption => ({
  _tag: "question",
  requestId: Id.requestId(runId, index),
  runId,
  agentPath: ["root"],
  at: index,
  callId: Id.toolCallId(runId, 1, index),
  question: "Which one?"
})

export const opened = (request: Interruption): RunEvent => ({
  _tag: "request.opened",
  at: request.at,
  request
})

/** Wraps an event of a sub-agent. */
export const inChild = (parent: Id.RunId, event: RunEvent): RunEvent => ({
  _tag: "child.advanced",
  at: event.at,
  callId: Id.toolCallId(parent, 1, 1),
  event
})

export const approve = (requestId: Id.RequestId, by = "ada") => ({ _tag: "approve", requestId, by }) as const
export const deny = (requestId: Id.RequestId, by = "bob") => ({ _tag: "deny", requestId, by }) as const

/** A message to send. */
export const saying = (words: string, messageId?: string) => ({
  content: [text(words)],
  ...(messageId === undefined ? {} : { messageId })
})

/** The event that takes a message. */
export const taking = (messageId: string, words = "hello"): RunEvent => ({
  _tag: "message.queued",
  at: 9,
  content: [text(words)],
  messageId
})

/** What waits, as `id: text`. */
export const mail = (store: Store, runId: Id.RunId) =>
  Effect.map(store.messages(runId), (messages) =>
    messages.map(
      ({ content, messageId }) =>
        `${messageId}: ${content.map((part) => (part._tag === "text" ? part.text : part._tag)).join()}`
    )
  )

/** Stores a run that is held for an hour by `me`, the first of a session of its own. */
export const started = (
  store: Store,
  runId: Id.RunId,
  options: Partial<Parameters<Store["create"]>[0]> = {}
): Effect.Effect<Lease, unknown> =>
  store.create({
    runId,
    sessionId: session(`s-${runId}`),
    agent: "root",
    events: [said("0")],
    status: "running",
    owner: "me",
    ttl: "1 hour",
    ...options
  })

/** Stores a run whose first events ask for decisions, and whose lease is released. */
export const heldOn = Effect.fnUntraced(function* (
  store: Store,
  runId: Id.RunId,
  requests: Arr.NonEmptyReadonlyArray<Interruption>,
  options: Partial<Parameters<Store["create"]>[0]> = {}
) {
  const [first, ...rest] = requests
  const events = [opened(first), ...rest.map(opened)] as const
  yield* store.release(yield* started(store, runId, { events, status: "held", ...options }))
})

/** The facts that an error carries. */
export const fields = (error: unknown): { readonly [key: string]: unknown } =>
  JSON.parse(JSON.stringify({ ...(error as object), isRetryable: undefined }))

/** The tag of an effect's error. */
export const tagOf = <A, E extends { readonly _tag: string }>(
  effect: Effect.Effect<A, E>
): Effect.Effect<string, A> => Effect.map(Effect.flip(effect), (error) => error._tag)
