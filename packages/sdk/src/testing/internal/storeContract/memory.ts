/**
 * The contract of memory: rows are stored with the events that they belong to, in the order of their positions, each once, and are deleted with
 * their run. Searches find the same in every store. A store without `memory` passes.
 */
import * as Effect from "effect/Effect"
import * as TestClock from "effect/testing/TestClock"
import type { RunId, SessionId } from "../../../domain/Id.ts"
import { make, type MemoryOperations } from "../../../memory/Memory.ts"
import type { MemoryPort, MemoryRow } from "../../../store/MemoryPort.ts"
import { a, b, rev, run, said, session } from "./events.ts"
import type { Group, Store } from "./group.ts"
import { claimed, started } from "./stored.ts"

const harbor = session("harbor")

/** The row of a message of a session. */
const message = (
  sequence: number,
  text: string,
  { runId = a, scope, sessionId = harbor }: { runId?: RunId; scope?: string; sessionId?: SessionId } = {}
): MemoryRow => ({
  id: `${sessionId}/${sequence}`,
  scope: scope ?? `session:${sessionId}`,
  kind: "message",
  text,
  terms: `1\n${text}`,
  version: 1,
  at: 1000 + sequence,
  role: sequence % 2 === 0 ? "user" : "assistant",
  runId,
  sessionId,
  sequence
})

const fact = (id: string, text: string, at: number, scope = "user:anna"): MemoryRow => ({
  id,
  scope,
  kind: "fact",
  text,
  terms: `1\n${text}`,
  version: 1,
  at,
  key: "key"
})

const scope = `session:${harbor}`

const textsIn = (port: MemoryPort, filter: Parameters<MemoryPort["list"]>[0] = {}) =>
  Effect.map(port.list(filter), (rows) => rows.map(({ text }) => text))

/** A conversation with several subjects. */
const conversation = [
  "When does the harbor open on Sundays?",
  "The harbor opens at six in the morning, and closes at nine in the evening.",
  "And what does a berth cost for a boat of twelve meters?",
  "A berth costs forty euros a night, water and electricity included.",
  "My daughter Mira is allergic to peanuts.",
  "I will remember to avoid peanuts for Mira when I plan the meals.",
  "Which lighthouse did we pass yesterday?",
  "You passed the lighthouse of Skagen, which was built in 1858.",
  "Thanks. Let us plan the meals for tomorrow.",
  "Breakfast on deck, then fish soup for lunch."
]

const remembered = (memory: MemoryOperations, query: string, sessionId = "harbor") =>
  Effect.map(memory.recall(query, { scope: { session: sessionId }, limit: 3 }), (found) =>
    found.map(({ item, score }) => [item.sequence, Math.round(score * 10_000)])
  )

/** Indexes the conversation as the messages of a session. */
const writeConversation = Effect.fnUntraced(function* (store: Store, memory: MemoryOperations) {
  const { encodeTerms } = yield* Effect.promise(() => import("../../../memory/internal/encodedTerms.ts"))
  const rows = conversation.map((text, sequence) => ({
    ...message(sequence, text),
    terms: encodeTerms(text)
  }))
  yield* memory["~port"]!.write(rows.map((row) => ({ ...row, runId: undefined })))
  return store
})

export const memory = ({ assert, test }: Group): void => {
  test("stores rows of memory with the events of an append, and each message once", function* (store) {
    const port = store.memory
    if (port === undefined) return
    assert.strictEqual(yield* port.indexed(harbor), 0)
    const lease = yield* started(store, a, { sessionId: harbor })
    const rows = [message(0, "first"), message(1, "second")]
    yield* store.append({ lease, expected: rev(1), events: [said("1")], status: "running", memory: rows })
    assert.strictEqual(yield* port.indexed(harbor), 2)
    const again = [message(1, "changed"), message(2, "third")]
    yield* store.append({ lease, expected: rev(2), events: [said("2")], status: "running", memory: again })
    assert.deepStrictEqual(yield* textsIn(port, { scope }), ["first", "second", "third"])
    assert.strictEqual(yield* port.indexed(harbor), 3)
    const [stored] = yield* port.read([`${harbor}/1`])
    const { position, ...row } = stored!
    assert.deepStrictEqual(
      { ...row, key: undefined, source: undefined },
      { ...rows[1], key: undefined, source: undefined }
    )
    assert.isTrue(position > 0)
  })

  test("stores no row of memory if the append is refused", function* (store) {
    const port = store.memory
    if (port === undefined) return
    yield* port.indexed(harbor)
    const lease = yield* started(store, a, { sessionId: harbor })
    const refused = store.append({
      lease,
      expected: rev(5),
      events: [said("1")],
      status: "running",
      memory: [message(0, "first")]
    })
    assert.strictEqual((yield* Effect.flip(refused))._tag, "RunConflict")
    assert.deepStrictEqual(yield* textsIn(port), [])
    assert.deepStrictEqual(yield* port.marks([scope]), [])
  })

  test("stores rows of memory with a park", function* (store) {
    const port = store.memory
    if (port === undefined) return
    yield* port.indexed(harbor)
    const lease = yield* started(store, a, { sessionId: harbor })
    const memory = [message(0, "first")]
    yield* store.park({ lease, expected: rev(1), events: [said("1")], status: "held", memory })
    assert.deepStrictEqual(yield* textsIn(port), ["first"])
  })

  test("deletes the messages of a run from memory when the run is removed, and keeps the facts", function* (store) {
    const port = store.memory
    if (port === undefined) return
    const other = run("other")
    yield* port.write([
      message(0, "first"),
      message(1, "second", { runId: b }),
      message(0, "elsewhere", { runId: other, sessionId: session("other"), scope }),
      { ...fact("f1", "of the session", 1, scope), runId: a },
      fact("f2", "of the user", 1)
    ])
    const [before] = yield* port.marks([scope])
    yield* store.release(yield* started(store, a, { sessionId: harbor, status: "completed" }))
    yield* store.remove(a)
    assert.deepStrictEqual(yield* textsIn(port), ["second", "elsewhere", "of the user"])
    const [after] = yield* port.marks([scope])
    assert.isTrue(after!.removed > before!.removed)
    assert.strictEqual(yield* port.indexed(harbor), 2)
  })

  test("deletes memory with pruned runs, and uses no position again", function* (store) {
    const port = store.memory
    if (port === undefined) return
    yield* port.write([message(0, "first")])
    const [before] = yield* port.marks([scope])
    yield* store.release(yield* started(store, a, { sessionId: harbor, status: "completed" }))
    yield* TestClock.adjust("1 hour")
    assert.strictEqual(yield* store.prune({ endedBefore: 3_000_000 }), 1)
    assert.deepStrictEqual(yield* port.marks([scope]), [])
    yield* port.write([message(0, "first")])
    const [after] = yield* port.marks([scope])
    assert.isTrue(after!.next > before!.next)
  })

  test("replaces a fact by a later one with its id, and not by an earlier one", function* (store) {
    const port = store.memory
    if (port === undefined) return
    yield* port.write([fact("f1", "tea", 5)])
    yield* port.write([fact("f1", "coffee", 7)])
    yield* port.write([fact("f1", "water", 6)])
    assert.deepStrictEqual(yield* textsIn(port), ["coffee"])
  })

  test("keeps an empty row of a message that was forgotten, so that it is not indexed again", function* (store) {
    const port = store.memory
    if (port === undefined) return
    yield* port.write([message(0, "first"), message(1, "second"), fact("f1", "tea", 1)])
    assert.strictEqual(yield* port.forget({ ids: [`${harbor}/1`, "f1", "unknown"] }), 2)
    yield* port.write([message(1, "second")])
    yield* port.write([message(1, "second")], { replace: true })
    // It takes no place in a page of the texts.
    assert.deepStrictEqual(yield* textsIn(port), ["first"])
    assert.deepStrictEqual(
      (yield* port.list({ termsOnly: true })).map(({ terms }) => terms),
      ["1\nfirst", ""]
    )
    assert.deepStrictEqual(
      (yield* port.read([`${harbor}/1`])).map(({ text }) => text),
      [""]
    )
    assert.strictEqual(yield* port.indexed(harbor), 2)
    assert.strictEqual(yield* port.forget({ ids: [`${harbor}/1`] }), 0)
  })

  test("forgets a scope or a session as a whole", function* (store) {
    const port = store.memory
    if (port === undefined) return
    const rows = [
      message(0, "first"),
      message(0, "other", { sessionId: session("other") }),
      fact("f1", "tea", 1)
    ]
    yield* port.write(rows)
    assert.strictEqual(yield* port.forget({ scope: "user:anna" }), 1)
    assert.strictEqual(yield* port.forget({ sessionId: harbor }), 1)
    assert.deepStrictEqual(yield* textsIn(port), ["other"])
  })

  test("lists rows of a scope by position, page by page", function* (store) {
    const port = store.memory
    if (port === undefined) return
    yield* port.write(conversation.map((text, sequence) => message(sequence, text)))
    yield* port.write([fact("f1", "tea", 1, scope)])
    const page = yield* port.list({ scope, kind: "message", limit: 4 })
    const next = yield* port.list({ scope, kind: "message", after: page.at(-1)!.position, limit: 100 })
    assert.deepStrictEqual(
      [...page, ...next].map(({ text }) => text),
      conversation
    )
    assert.deepStrictEqual(yield* textsIn(port, { scope, kind: "fact" }), ["tea"])
  })

  test("finds messages by their words and by those of their neighbors, with the same scores in every store", function* (store) {
    if (store.memory === undefined) return
    const memory = yield* make(store)
    yield* writeConversation(store, memory)
    assert.deepStrictEqual(yield* remembered(memory, "opening hours of the harbor"), expected.harbor)
    assert.deepStrictEqual(yield* remembered(memory, "Who must not eat peanuts?"), expected.peanuts)
    assert.deepStrictEqual(yield* remembered(memory, "price of a berth for one night"), expected.berth)
    assert.deepStrictEqual(yield* remembered(memory, "xylophone"), [])
    assert.deepStrictEqual(yield* remembered(memory, "harbor", "another"), [])
  })

  test("finds what was written after the last search, and not what was removed since", function* (store) {
    if (store.memory === undefined) return
    const memory = yield* make(store)
    yield* writeConversation(store, memory)
    const other = yield* make(store)
    const scope = { session: "harbor" } as const
    const found = (words: string) =>
      Effect.map(memory.recall(words, { scope, limit: 1 }), (all) => all.map(({ item }) => item.text))
    assert.deepStrictEqual(yield* found("password"), [])
    yield* other.remember({ scope, key: "wifi", text: "The password of the wifi is kelp." })
    assert.deepStrictEqual(yield* found("password"), ["The password of the wifi is kelp."])
    yield* other.remember({ scope, key: "wifi", text: "The password of the wifi is gull." })
    assert.deepStrictEqual(yield* found("password"), ["The password of the wifi is gull."])
    yield* other.forget((yield* other.recall("password", { scope }))[0]!.item.id)
    assert.deepStrictEqual(yield* found("password"), [])
    // What was removed takes no place among the best.
    const [best] = yield* memory.recall("lighthouse", { scope, limit: 1 })
    yield* other.forget(best!.item.id)
    const [next] = yield* memory.recall("lighthouse", { scope, limit: 1 })
    assert.isTrue(next !== undefined && next.item.id !== best!.item.id)
  })

  test("keeps scopes apart", function* (store) {
    if (store.memory === undefined) return
    const memory = yield* make(store)
    const scopes = [{ session: "x" }, { agent: "x" }, { user: "x" }, { user: "x:y" }, "global"] as const
    for (const scope of scopes) yield* memory.remember({ scope, text: `secret of ${JSON.stringify(scope)}` })
    for (const scope of scopes) {
      const found = yield* memory.recall("secret", { scope })
      assert.deepStrictEqual(
        found.map(({ item }) => item.scope),
        [scope]
      )
      assert.deepStrictEqual(
        (yield* memory.list({ scope })).map(({ text }) => text),
        [`secret of ${JSON.stringify(scope)}`]
      )
    }
    assert.strictEqual((yield* memory.recall("secret", { scope: [...scopes] })).length, scopes.length)
    yield* memory.forget({ scope: { user: "x" } })
    assert.strictEqual((yield* memory.list()).length, scopes.length - 1)
  })

  test("stores a row of a run that another process owns only with an append under the lease", function* (store) {
    const port = store.memory
    if (port === undefined) return
    yield* port.indexed(harbor)
    const old = yield* started(store, a, { sessionId: harbor })
    yield* store.release(old)
    const lease = yield* claimed(store, a)
    const rows = [message(0, "late")]
    const late = store.append({
      lease: old,
      expected: rev(1),
      events: [said("1")],
      status: "running",
      memory: rows
    })
    assert.strictEqual((yield* Effect.flip(late))._tag, "LeaseLost")
    assert.deepStrictEqual(yield* textsIn(port), [])
    yield* store.append({ lease, expected: rev(1), events: [said("1")], status: "running", memory: rows })
    assert.deepStrictEqual(yield* textsIn(port), ["late"])
  })
}

/** The sequence numbers and scores (times 10,000) that the searches of the conversation find. */
const expected = {
  harbor: [
    [0, 1818],
    [1, 1667],
    [2, 769]
  ],
  peanuts: [
    [4, 1742],
    [5, 1742],
    [6, 769]
  ],
  berth: [
    [3, 1818],
    [2, 1667],
    [4, 769]
  ]
}
