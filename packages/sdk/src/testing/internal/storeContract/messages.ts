/**
 * The contract of messages to a run: the store keeps each one once, until the journal contains it.
 */
import * as Effect from "effect/Effect"
import * as TestClock from "effect/testing/TestClock"
import * as Id from "../../../domain/Id.ts"
import { text } from "../../../domain/Message.ts"
import { a, b, inChild, rev, run, said, saying, session, taking } from "./events.ts"
import type { Group } from "./group.ts"
import { approval } from "./requests.ts"
import { heldOn, mail, started } from "./stored.ts"

const request = approval(a, 1)

export const messages = ({ assert, fails, test }: Group): void => {
  test("keeps a message to a running or held run until its journal contains it", function* (store) {
    const lease = yield* started(store, a)
    yield* heldOn(store, b, [approval(b, 1)])
    yield* TestClock.adjust("1 second")
    assert.deepStrictEqual(yield* store.send(a, saying("hello", "m1")), { messageId: "m1", at: 1000 })
    yield* store.send(b, saying("hello", "m1"))
    for (const runId of [a, b]) {
      const waiting = [{ messageId: "m1", content: [text("hello")], at: 1000 }]
      assert.deepStrictEqual(yield* store.messages(runId), waiting)
      assert.deepStrictEqual((yield* store.load(runId)).messages, waiting)
    }
    yield* store.append({ lease, expected: rev(1), events: [taking("m1")], status: "running" })
    assert.deepStrictEqual([yield* mail(store, a), yield* mail(store, b)], [[], ["m1: hello"]])
    assert.deepStrictEqual((yield* store.load(a)).messages, [])
  })

  test("generates an id for a message without one", function* (store) {
    yield* started(store, a)
    const one = yield* store.send(a, saying("same"))
    const two = yield* store.send(a, saying("same"))
    assert.isTrue(/^m_\w{20,}$/.test(one.messageId) && one.messageId !== two.messageId)
    assert.deepStrictEqual(yield* mail(store, a), [`${one.messageId}: same`, `${two.messageId}: same`])
  })

  test("returns the first receipt when a message is sent again, even after the journal contains it or the run has ended", function* (store) {
    const lease = yield* started(store, a)
    const first = yield* store.send(a, saying("first", "m1"))
    yield* TestClock.adjust("1 minute")
    const again = store.send(a, saying("first", "m1"))
    assert.deepStrictEqual(yield* again, first)
    assert.deepStrictEqual(yield* mail(store, a), ["m1: first"])
    yield* store.append({ lease, expected: rev(1), events: [taking("m1")], status: "running" })
    assert.deepStrictEqual(yield* again, first)
    yield* store.append({ lease, expected: rev(2), events: [said("end")], status: "completed" })
    assert.deepStrictEqual(yield* again, first)
    assert.deepStrictEqual(yield* mail(store, a), [])
  })

  test("refuses a message with the id of one with other content, also after the journal contains it", function* (store) {
    const lease = yield* started(store, a)
    const first = yield* store.send(a, saying("pay 5,000", "m1"))
    const refused = Effect.gen(function* () {
      for (const other of [
        saying("pay 1,000", "m1"),
        { ...saying("pay 5,000", "m1"), ends: true } as const
      ]) {
        const error = yield* Effect.flip(store.send(a, other))
        assert.strictEqual(error._tag, "MessageInvalid")
        assert.isTrue(
          error.message.includes("other content") && !error.message.includes("000"),
          error.message
        )
      }
      assert.deepStrictEqual(yield* store.send(a, saying("pay 5,000", "m1")), first)
    })
    yield* refused
    yield* store.append({ lease, expected: rev(1), events: [taking("m1")], status: "running" })
    yield* refused
    yield* store.append({ lease, expected: rev(2), events: [said("end")], status: "completed" })
    yield* refused
    assert.deepStrictEqual(yield* store.messages(a), [])
  })

  test("refuses a message with the id of one that reopens a request, and takes a repetition of that", function* (store) {
    const lease = yield* started(store, a)
    const reopens = { requestId: Id.requestId(a, 1), by: "ada", at: 1 }
    const first = yield* store.send(a, { ...saying("again", "m1"), reopens })
    const checked = Effect.gen(function* () {
      const other = { ...reopens, requestId: Id.requestId(a, 2) }
      for (const sent of [saying("again", "m1"), { ...saying("again", "m1"), reopens: other }])
        yield* fails(store.send(a, sent), "MessageInvalid")
      const repeated = { ...saying("again", "m1"), reopens: { ...reopens, at: 9 } }
      assert.deepStrictEqual(yield* store.send(a, repeated), first)
    })
    yield* checked
    yield* store.append({ lease, expected: rev(1), events: [taking("m1")], status: "running" })
    yield* checked
    yield* store.send(a, saying("plain", "m2"))
    yield* fails(store.send(a, { ...saying("plain", "m2"), reopens }), "MessageInvalid")
  })

  test("keeps messages in the order in which they were sent, even at the same time", function* (store) {
    const lease = yield* started(store, a)
    for (const id of ["z", "m", "a", "k"]) yield* store.send(a, saying(id, id))
    yield* TestClock.adjust("1 second")
    yield* store.send(a, saying("b", "b"))
    const events = [taking("m"), taking("a")] as const
    yield* store.append({ lease, expected: rev(1), events, status: "running" })
    yield* store.send(a, saying("a2", "0"))
    assert.deepStrictEqual(yield* mail(store, a), ["z: z", "k: k", "b: b", "0: a2"])
  })

  test("refuses a message to a missing or ended run, and an invalid message", function* (store) {
    yield* fails(store.send(a, saying("hello")), "RunNotFound")
    for (const status of ["completed", "cancelled", "error"] as const) {
      yield* started(store, run(status), { status, ttl: 0 })
      yield* fails(store.send(run(status), saying("hello")), {
        _tag: "RunEnded",
        runId: status,
        status
      })
    }
    yield* started(store, a)
    let deep: unknown = {}
    for (let level = 0; level < 300; level += 1) deep = { deep }
    const wrong: ReadonlyArray<unknown> = [
      null,
      "hello",
      {},
      { content: "hello" },
      { content: [] },
      { content: [{ _tag: "text" }] },
      { content: [{ _tag: "text", text: 'sk-"; --\0', payload: deep }] },
      { content: [{ _tag: "toolCall", callId: "c" }] },
      { content: [text("hello")], messageId: "" },
      { content: [text("hello")], messageId: "two words" },
      { content: [text("hello")], messageId: "nul\0" },
      { content: [text("hello")], messageId: "x".repeat(257) },
      { content: [text("hello")], messageId: 7 },
      { content: [text("hello")], to: 7 },
      { content: [text("hello")], to: "run_b.t1.1" },
      { content: [text("hello")], to: "run_a.other" }
    ]
    for (const message of wrong) {
      const error = yield* Effect.flip(store.send(a, message as never))
      assert.strictEqual(error._tag, "MessageInvalid")
      assert.isTrue(!error.message.includes("sk-"), error.message)
    }
    assert.deepStrictEqual(yield* store.messages(a), [])
    assert.deepStrictEqual(yield* store.messages(b), [])
  })

  test("returns a message as it was sent, with every text and file", function* (store) {
    yield* started(store, a)
    const content = [
      text(`naïve 日本語 🎼 nul \0 "quoted" 'twice' \u2028 \\ \n`),
      text("x".repeat(1e6)),
      {
        _tag: "file",
        mediaType: "image/png",
        source: { _tag: "bytes", base64: "AAEC" },
        name: "'; --"
      } as const
    ]
    const messageId = `<1.2@mail>/'";--%_\\`
    yield* store.send(a, { messageId, content })
    assert.deepStrictEqual(yield* store.messages(a), [{ messageId, content, at: 0 }])
  })

  test("removes a message from the mail of the root run when an event of a sub-agent contains it", function* (store) {
    const lease = yield* started(store, a)
    yield* store.send(a, saying("hello", "m1"))
    const child = run("run_a.t1.1")
    yield* fails(store.send(child, saying("hello")), "RunNotFound")
    const events = [inChild(a, inChild(child, taking("m1")))] as const
    yield* store.append({ lease, expected: rev(1), events, status: "running" })
    assert.deepStrictEqual(yield* mail(store, a), [])
  })

  test("refuses an append with a message that the journal already contains, and writes nothing", function* (store) {
    const lease = yield* started(store, a)
    yield* store.send(a, saying("hello", "m1"))
    yield* store.send(a, saying("hello", "m2"))
    yield* store.append({ lease, expected: rev(1), events: [taking("m1")], status: "running" })
    for (const events of [
      [taking("m2"), taking("m1")],
      [taking("m2"), inChild(a, taking("m2"))]
    ] as const) {
      const twice = { lease, expected: rev(2), events, status: "running" } as const
      yield* fails(store.append(twice), "RunConflict")
      yield* fails(store.park(twice), "RunConflict")
    }
    assert.strictEqual((yield* store.head(a)).revision, 2)
    assert.deepStrictEqual(yield* mail(store, a), ["m2: hello"])
  })

  test("returns a receipt for a message that the journal contains without its having been sent", function* (store) {
    const lease = yield* started(store, a, { events: [said("0"), taking("m1")] })
    yield* store.append({ lease, expected: rev(2), events: [taking("m2")], status: "running" })
    for (const id of ["m1", "m2"]) {
      assert.deepStrictEqual(yield* store.send(a, saying("late", id)), { messageId: id, at: 9 })
    }
    assert.deepStrictEqual(yield* store.messages(a), [])
  })

  test("deletes the messages of a run with the run", function* (store) {
    yield* heldOn(store, a, [request])
    yield* store.send(a, saying("hello", "m1"))
    yield* store.remove(a)
    const lease = yield* started(store, b)
    yield* store.send(b, saying("hello", "m1"))
    yield* store.append({ lease, expected: rev(1), events: [said("end")], status: "completed" })
    yield* store.release(lease)
    yield* TestClock.adjust("1 hour")
    assert.strictEqual(yield* store.prune({ endedBefore: 1e9 }), 1)
    for (const runId of [a, b]) {
      yield* started(store, runId)
      assert.deepStrictEqual(yield* store.messages(runId), [])
      assert.deepStrictEqual(yield* store.send(runId, saying("new", "m1")), {
        messageId: "m1",
        at: 3_600_000
      })
      assert.deepStrictEqual(yield* mail(store, runId), ["m1: new"])
    }
  })

  test("restores the unread messages of a run, and no message that its journal contains", function* (store) {
    const held = {
      runId: a,
      sessionId: session("s"),
      agent: "root",
      status: "held",
      events: [said("0"), taking("m1")]
    } as const
    const sent = [
      { messageId: "m3", content: [text("three")], at: 8 },
      { messageId: "m1", content: [text("one")], at: 5 },
      { messageId: "m2", content: [text("two")], at: 7 }
    ]
    yield* TestClock.adjust("1 hour")
    yield* store.restore([held], [], sent)
    assert.deepStrictEqual(yield* store.messages(a), [sent[0], sent[2]])
    assert.deepStrictEqual(yield* store.ready(), [{ runId: a, agent: "root", reason: "message" }])
    assert.deepStrictEqual(yield* store.send(a, saying("two", "m2")), { messageId: "m2", at: 7 })
    yield* fails(store.send(a, saying("other", "m2")), "MessageInvalid")
  })

  test("keeps a request to end a sub-agent of a failed run, and refuses one for a completed or cancelled run", function* (store) {
    const ending = { ...saying("enough", "m1"), to: run("run_a.t1.1"), ends: true } as const
    yield* started(store, a, { status: "error", ttl: 0 })
    const receipt = yield* store.send(a, ending)
    assert.deepStrictEqual(yield* store.send(a, ending), receipt)
    const waiting = [{ ...ending, at: 0 }]
    assert.deepStrictEqual((yield* store.load(a)).messages, waiting)
    assert.deepStrictEqual(yield* store.ready(), [])
    for (const status of ["completed", "cancelled"] as const) {
      yield* started(store, run(status), { status, ttl: 0 })
      yield* fails(store.send(run(status), { ...ending, to: run(`${status}.t1.1`) }), "RunEnded")
    }
  })

  test("keeps the addressee of a message, and refuses a message with the id of one to another addressee", function* (store) {
    const lease = yield* started(store, a)
    const to = run("run_a.t1.1")
    yield* store.send(a, { ...saying("for the sub-agent", "m1"), to })
    yield* store.send(a, { ...saying("enough", "m2"), to, ends: true })
    yield* store.send(a, { ...saying("for the sub-agent", "m1"), to })
    const waiting = [
      { messageId: "m1", content: [text("for the sub-agent")], at: 0, to },
      { messageId: "m2", content: [text("enough")], at: 0, to, ends: true }
    ]
    assert.deepStrictEqual(yield* store.messages(a), waiting)
    assert.deepStrictEqual((yield* store.load(a)).messages, waiting)
    for (const other of [saying("for the run", "m1"), { ...saying("?", "m1"), to: run("run_a.t1.2") }]) {
      yield* fails(store.send(a, other), "MessageInvalid")
    }
    const events = [inChild(a, taking("m1"))] as const
    yield* store.append({ lease, expected: rev(1), events, status: "running" })
    assert.deepStrictEqual(yield* store.messages(a), waiting.slice(1))
    assert.deepStrictEqual(yield* store.send(a, { ...saying("for the sub-agent", "m1"), to }), {
      messageId: "m1",
      at: 0
    })
    yield* fails(store.send(a, saying("for the run", "m1")), "MessageInvalid")
    const wrong = { ...saying("?"), to: "no id" } as unknown as Parameters<typeof store.send>[1]
    yield* fails(store.send(a, wrong), "MessageInvalid")
  })

  test("keeps each of many messages that are sent concurrently, and one of those with the same id", function* (store) {
    yield* started(store, a)
    const many = Array.from({ length: 20 }, (_, index) =>
      Effect.all([store.send(a, saying(String(index), `m${index}`)), store.send(a, saying("same", "same"))])
    )
    const receipts = yield* Effect.all(many, { concurrency: "unbounded" })
    assert.strictEqual(new Set(receipts.map(([, { at }]) => at)).size, 1)
    const ids = (yield* store.messages(a)).map(({ messageId }) => messageId)
    assert.deepStrictEqual(
      ids.toSorted(),
      ["same", ...Array.from({ length: 20 }, (_, index) => `m${index}`)].toSorted()
    )
  })
}
