/**
 * The contract of contents beside the journals: each is stored once, stays for as long as a run refers to it, and is deleted with the last of
 * these runs. A store without `blobs` refuses references.
 */
import type * as Arr from "effect/Array"
import * as Effect from "effect/Effect"
import * as Stream from "effect/Stream"
import * as TestClock from "effect/testing/TestClock"
import { type BlobRef, Sha256 } from "../../../domain/Blob.ts"
import type { Supply } from "../../../domain/Decision.ts"
import { requestId, type RunId } from "../../../domain/Id.ts"
import { defined } from "../../../domain/internal/defined.ts"
import type { FilePart, TextPart } from "../../../domain/Message.ts"
import type { RunEvent } from "../../../domain/RunEvent.ts"
import { type BlobPort, graceTime } from "../../../store/BlobPort.ts"
import { a, b, begun, c, d, failed, inChild, resumed, rev, run, said, saying, session } from "./events.ts"
import { factsOf, type Group, type Store } from "./group.ts"
import { approval, approve, decided, external, opened } from "./requests.ts"
import { claimed, heldOn, started } from "./stored.ts"

const bytes = (text: string): Uint8Array => new TextEncoder().encode(text)

/** A file part that refers to a content. */
const file = (ref: BlobRef): FilePart => ({
  _tag: "file",
  mediaType: "image/png",
  source: { _tag: "stored", ...ref }
})

/** An event with a file. */
const showing = (...refs: ReadonlyArray<BlobRef>): RunEvent => ({
  _tag: "message.queued",
  at: 1,
  content: refs.map(file)
})

const absent: BlobRef = { sha256: Sha256.make("a".repeat(64)), bytes: 1 }

/** Every event that can hold content, with this part in it. */
const eventsWith = (ref: BlobRef): Arr.NonEmptyReadonlyArray<RunEvent> => {
  const { callId } = approval(a, 1)
  const whole: TextPart = { _tag: "text", text: "short", whole: ref }
  const usage = { inputTokens: 0, outputTokens: 0 } as never
  return [
    showing(ref),
    { ...begun("root"), prompt: [file(ref)] } as RunEvent,
    { _tag: "model.answered", at: 1, content: [file(ref)], usage, finishReason: "stop" },
    { _tag: "tool.completed", at: 1, callId, content: [whole] },
    { _tag: "tool.completed", at: 1, callId, content: [{ _tag: "text", text: "" }, file(ref)] },
    { _tag: "tool.failed", at: 1, callId, content: [whole] },
    { _tag: "tool.denied", at: 1, callId, content: [whole] },
    { _tag: "run.cancelled", at: 1, reason: "no", calls: [], said: [whole] },
    inChild(a, inChild(run("run_a.t1.1"), showing(ref)))
  ]
}

/** A decision that supplies the result of an external call of the run `a`, with the reference of its whole text. */
const supplying = (index: number, whole?: BlobRef): Supply => ({
  _tag: "supply",
  requestId: external(a, index).requestId,
  by: "ann",
  at: 5,
  result: "short",
  idempotencyKey: `job ${index}`,
  ...defined({ whole })
})

/** The whole content, as text. */
const read = (blobs: BlobPort, { sha256 }: BlobRef, options?: Parameters<BlobPort["read"]>[1]) =>
  blobs.read(sha256, options).pipe(Stream.decodeText(), Stream.mkString)

const put = (blobs: BlobPort, text: string) => blobs.put(Stream.make(bytes(text)))

const has = (blobs: BlobPort, ref: BlobRef) =>
  Effect.map(blobs.find([ref.sha256]), (found) => found.length === 1)

/** The uses of contents, as `run text`. */
const usesOf = Effect.fnUntraced(function* (blobs: BlobPort, runIds: ReadonlyArray<RunId>) {
  const uses = yield* blobs.uses(runIds)
  return yield* Effect.forEach(uses, ({ ref, runId }) =>
    Effect.map(read(blobs, ref), (text) => `${runId} ${text}`)
  )
})

/** Creates a completed run without a lease that refers to contents. */
const ended = (store: Store, runId: RunId, ...refs: ReadonlyArray<BlobRef>) =>
  Effect.flatMap(started(store, runId, { events: [showing(...refs)], status: "completed" }), store.release)

export const blobs = ({ assert, fails, test: anyTest }: Group): void => {
  /** A test of stores that keep contents. */
  const test = (title: string, body: (store: Store, blobs: BlobPort) => Effect.fn.Return<unknown, unknown>) =>
    anyTest(title, function* (store) {
      if (store.blobs !== undefined) yield* Effect.gen(() => body(store, store.blobs!))
    })

  /** Asserts that an operation fails because the store lacks a content. */
  const lacks = (effect: Effect.Effect<unknown, unknown>, operation: string, ref: Partial<BlobRef>) =>
    Effect.map(factsOf(effect), (facts) => {
      const { _tag, bytes, sha256 } = facts["reason"] as Partial<BlobRef> & { readonly _tag?: string }
      assert.deepStrictEqual(
        [facts["operation"], _tag, sha256, bytes],
        [operation, "BlobMissing", ref.sha256, ref.bytes]
      )
    })

  anyTest("refuses a reference to a content that it does not have, and writes nothing", function* (store) {
    for (const event of eventsWith(absent)) {
      yield* lacks(started(store, a, { events: [said("0"), event] }), "create", absent)
    }
    yield* fails(store.head(a), "RunNotFound")
    const lease = yield* started(store, a)
    for (const event of eventsWith(absent)) {
      const options = { lease, expected: rev(1), events: [said("1"), event], status: "running" } as const
      yield* lacks(store.append(options), "append", absent)
      yield* lacks(store.park({ ...options, status: "held" }), "park", absent)
    }
    const message = { messageId: "m1", content: [file(absent)] }
    yield* lacks(store.send(a, message), "send", absent)
    assert.deepStrictEqual(yield* store.messages(a), [])
    const copy = {
      runId: b,
      sessionId: session("b"),
      agent: "root",
      status: "held",
      events: [said("0")]
    } as const
    for (const event of eventsWith(absent)) {
      yield* lacks(store.restore([{ ...copy, events: [event] }], [], []), "restore", absent)
      yield* lacks(store.restore([{ ...copy, rest: [event] }], [], []), "restore", absent)
    }
    yield* lacks(store.restore([copy], [], [{ ...message, at: 1 }]), "restore", absent)
    yield* fails(store.head(b), "RunNotFound")
    yield* store.append({ lease, expected: rev(1), events: [said("1")], status: "running" })
    assert.strictEqual((yield* store.head(a)).revision, 2)
  })

  test("stores a content by its SHA-256, and reads it and its parts", function* (_, blobs) {
    const ref = yield* blobs.put(Stream.make(bytes("hello "), bytes(""), bytes("world")))
    assert.deepStrictEqual(ref, {
      sha256: "b94d27b9934d3e08a52e52d7da7dabfac484efe37a5380ee9088f7ace2efcde9",
      bytes: 11
    })
    assert.strictEqual(yield* read(blobs, ref), "hello world")
    assert.strictEqual(yield* read(blobs, ref, { from: 4, length: 3 }), "o w")
    assert.strictEqual(yield* read(blobs, ref, { from: 6 }), "world")
    assert.strictEqual(yield* read(blobs, ref, { from: 11 }), "")
    assert.strictEqual(yield* read(blobs, ref, { from: 99, length: 1 }), "")
    assert.strictEqual(yield* read(blobs, ref, { length: 0 }), "")
    const none = yield* blobs.put(Stream.empty)
    assert.strictEqual(none.bytes, 0)
    assert.strictEqual(yield* read(blobs, none), "")
    assert.deepStrictEqual(yield* blobs.find([ref.sha256, absent.sha256, none.sha256]), [ref, none])
    yield* lacks(Stream.runDrain(blobs.read(absent.sha256)), "blobs.read", { sha256: absent.sha256 })
  })

  test("returns each byte of a content that was stored in pieces of any length", function* (_, blobs) {
    const piece = 256 * 1024
    for (const [length, step] of [
      [piece - 1, piece],
      [piece, piece],
      [piece + 1, 70_001],
      [3 * piece, 3 * piece],
      [3 * piece + 5, 1_000_000]
    ] as const) {
      const content = Uint8Array.from({ length }, (_, index) => (index * 31 + (index >> 8)) & 255)
      const given = Array.from({ length: Math.ceil(length / step) }, (_, index) =>
        content.slice(index * step, (index + 1) * step)
      )
      const ref = yield* blobs.put(Stream.fromIterable(given))
      // The stream may use its arrays again.
      for (const one of given) one.fill(0)
      const [whole] = yield* blobs.putAll([content])
      assert.deepStrictEqual(whole, ref)
      for (const [from, to] of [
        [0, length],
        [1, length - 1],
        [piece - 3, piece + 3],
        [length - 1, length]
      ] as const) {
        const pieces = yield* Stream.runCollect(blobs.read(ref.sha256, { from, length: to - from }))
        assert.isTrue(pieces.every((one) => one.length <= piece))
        const found = pieces.flatMap((one) => Array.from(one))
        assert.isTrue(
          found.length === Math.min(to, length) - from &&
            found.every((byte, index) => byte === content[from + index]),
          `${length} by ${step} from ${from}`
        )
      }
    }
  })

  test("stores nothing of a stream that fails", function* (_, blobs) {
    const broken = Stream.concat(Stream.make(bytes("hello "), new Uint8Array(600_000)), Stream.fail("broken"))
    assert.strictEqual(yield* Effect.flip(blobs.put(broken)), "broken")
    const ref = yield* put(blobs, "hello ")
    assert.strictEqual(yield* read(blobs, ref), "hello ")
    yield* TestClock.adjust(graceTime + 1)
    // A sweep counts contents. The incomplete one is none.
    assert.strictEqual(yield* blobs.sweep({ storedBefore: graceTime }), 1)
  })

  test("stores several contents at once, in their order, and equal ones once", function* (store, blobs) {
    const refs = yield* blobs.putAll(["two", "one", "two", ""].map(bytes))
    const found = yield* Effect.forEach(refs, (ref) => read(blobs, ref))
    assert.deepStrictEqual(found, ["two", "one", "two", ""])
    assert.deepStrictEqual(yield* blobs.putAll([]), [])
    yield* ended(store, a, ...refs)
    yield* store.remove(a)
    assert.deepStrictEqual(yield* blobs.find(refs.map(({ sha256 }) => sha256)), [])
  })

  test("stores which contents a run refers to, in each event that can hold one", function* (store, blobs) {
    const kinds = eventsWith(absent)
    const refs = yield* Effect.forEach(kinds, (_, index) => put(blobs, `c${index}`))
    const events = refs.map((ref, index) => eventsWith(ref)[index]!)
    const [first, second, third, ...rest] = events as unknown as readonly [
      RunEvent,
      RunEvent,
      RunEvent,
      ...Array<RunEvent>
    ]
    const lease = yield* started(store, a, { events: [first, first] })
    yield* store.append({ lease, expected: rev(2), events: [second, first], status: "running" })
    for (const [index, event] of rest.entries())
      yield* store.append({ lease, expected: rev(4 + index), events: [event], status: "running" })
    yield* store.park({ lease, expected: rev(4 + rest.length), events: [third], status: "held" })
    const other = yield* put(blobs, "other")
    yield* started(store, b, { events: [showing(other, refs[0]!)] })
    const expected = kinds.map((_, index) => `run_a c${index}`)
    assert.deepStrictEqual((yield* usesOf(blobs, [a])).toSorted(), expected)
    const uses = yield* blobs.uses([b, a, b, c])
    assert.strictEqual(uses.length, kinds.length + 2)
    const order = uses.map(({ ref, runId }) => `${runId} ${ref.sha256}`)
    assert.deepStrictEqual(order, order.toSorted())
    assert.deepStrictEqual(yield* blobs.uses([]), [])
  })

  test("refuses a reference with another length than that of its content", function* (store, blobs) {
    const ref = yield* put(blobs, "hello")
    const wrong = { ...ref, bytes: 4 }
    yield* lacks(started(store, a, { events: [showing(ref, wrong)] }), "create", wrong)
    yield* started(store, a, { events: [showing(ref)] })
  })

  test("deletes a content with the last run that refers to it", function* (store, blobs) {
    const [shared, own] = (yield* blobs.putAll(["shared", "own"].map(bytes))) as [BlobRef, BlobRef]
    yield* ended(store, a, shared, own)
    yield* ended(store, b, yield* put(blobs, "shared"))
    yield* store.remove(a)
    assert.deepStrictEqual(yield* blobs.find([own.sha256, shared.sha256]), [shared])
    assert.deepStrictEqual(yield* usesOf(blobs, [a, b]), ["run_b shared"])
    assert.strictEqual(yield* read(blobs, shared), "shared")
    yield* store.remove(b)
    assert.strictEqual(yield* has(blobs, shared), false)
    yield* fails(Stream.runDrain(blobs.read(shared.sha256)), "RunStoreError")
    yield* lacks(started(store, a, { events: [showing(shared)] }), "create", shared)
  })

  test("deletes the contents of the runs that it prunes", function* (store, blobs) {
    const [shared, own] = (yield* blobs.putAll(["shared", "own"].map(bytes))) as [BlobRef, BlobRef]
    yield* ended(store, a, shared, own)
    yield* TestClock.adjust("1 second")
    yield* ended(store, b, shared)
    assert.strictEqual(yield* store.prune({ endedBefore: 1000 }), 1)
    assert.deepStrictEqual(yield* blobs.find([own.sha256, shared.sha256]), [shared])
    assert.strictEqual(yield* store.prune({ endedBefore: 2000 }), 1)
    assert.strictEqual(yield* has(blobs, shared), false)
  })

  test("keeps a content that is stored again before the last run that refers to it is removed", function* (store, blobs) {
    const ref = yield* put(blobs, "hello")
    yield* ended(store, a, ref)
    yield* put(blobs, "hello")
    yield* store.remove(a)
    assert.strictEqual(yield* read(blobs, ref), "hello")
    yield* TestClock.adjust(graceTime)
    assert.strictEqual(yield* store.prune({ endedBefore: graceTime }), 0)
    yield* ended(store, b, ref)
    assert.deepStrictEqual(yield* usesOf(blobs, [b]), ["run_b hello"])
    yield* store.remove(b)
    assert.strictEqual(yield* has(blobs, ref), false)
  })

  test("counts one use for each time that a content is stored, and none for a repeated reference", function* (store, blobs) {
    const ref = yield* put(blobs, "hello")
    const lease = yield* started(store, a, { events: [showing(ref, ref)] })
    // Two other processes store it for runs of their own.
    yield* put(blobs, "hello")
    yield* put(blobs, "hello")
    yield* store.append({ lease, expected: rev(1), events: [showing(ref)], status: "running" })
    yield* store.append({ lease, expected: rev(2), events: [showing(ref)], status: "completed" })
    yield* store.release(lease)
    yield* store.remove(a)
    assert.isTrue(yield* has(blobs, ref))
    yield* ended(store, b, ref)
    yield* store.remove(b)
    assert.isTrue(yield* has(blobs, ref))
    yield* ended(store, c, ref)
    yield* store.remove(c)
    assert.strictEqual(yield* has(blobs, ref), false)
  })

  test("deletes a content whose expected use was not written for an hour, with its last run or by a prune", function* (store, blobs) {
    const ref = yield* put(blobs, "used")
    yield* ended(store, a, ref)
    yield* put(blobs, "used")
    const unused = yield* put(blobs, "unused")
    yield* TestClock.adjust(1)
    const later = yield* put(blobs, "later")
    yield* TestClock.adjust(graceTime)
    yield* store.remove(a)
    assert.strictEqual(yield* has(blobs, ref), false)
    assert.isTrue(yield* has(blobs, unused))
    assert.strictEqual(yield* store.prune({ endedBefore: 0 }), 0)
    assert.deepStrictEqual(yield* blobs.find([unused.sha256, later.sha256]), [later])
    yield* TestClock.adjust(1)
    yield* store.prune({ endedBefore: 0 })
    assert.strictEqual(yield* has(blobs, later), false)
  })

  test("sweeps the contents that no run refers to and that were last stored before a time", function* (store, blobs) {
    const [used, again, old] = (yield* blobs.putAll(["used", "again", "old"].map(bytes))) as [
      BlobRef,
      BlobRef,
      BlobRef
    ]
    yield* ended(store, a, used)
    yield* TestClock.adjust("1 minute")
    yield* put(blobs, "again")
    assert.strictEqual(yield* blobs.sweep({ storedBefore: 0 }), 0)
    assert.strictEqual(yield* blobs.sweep({ storedBefore: 60_000 }), 1)
    assert.strictEqual(yield* has(blobs, old), false)
    assert.strictEqual(yield* blobs.sweep({ storedBefore: 60_001 }), 1)
    assert.strictEqual(yield* has(blobs, again), false)
    assert.strictEqual(yield* read(blobs, used), "used")
  })

  test("keeps the content of a message from its sending until its run is removed", function* (store, blobs) {
    const lease = yield* started(store, a)
    const ref = yield* put(blobs, "photo")
    const message = { messageId: "m1", content: [file(ref)] }
    yield* store.send(a, message)
    assert.deepStrictEqual((yield* store.messages(a))[0]?.content, [file(ref)])
    assert.deepStrictEqual(yield* usesOf(blobs, [a]), ["run_a photo"])
    yield* put(blobs, "photo")
    yield* store.send(a, message)
    const taken = { _tag: "message.queued", at: 9, ...message } as const
    yield* store.append({ lease, expected: rev(1), events: [taken], status: "completed" })
    yield* store.release(lease)
    assert.deepStrictEqual(yield* usesOf(blobs, [a]), ["run_a photo"])
    yield* TestClock.adjust(graceTime + 1)
    yield* store.remove(a)
    assert.strictEqual(yield* has(blobs, ref), false)
  })

  anyTest(
    "refuses a decision that refers to a content which it does not have, and leaves the request open",
    function* (store) {
      yield* heldOn(store, a, [external(a, 1), external(a, 2)])
      yield* lacks(store.decide(supplying(1, absent)), "decide", absent)
      yield* lacks(store.decideAll([supplying(2), supplying(1, absent)]), "decideAll", absent)
      assert.deepStrictEqual(yield* store.decisions(a), [])
    }
  )

  test("keeps the whole of a supplied result from its decision until its run is removed, also in a copy", function* (store, blobs) {
    yield* heldOn(store, a, [external(a, 1), external(a, 2), external(a, 3)])
    const [one, two] = [yield* put(blobs, "one"), yield* put(blobs, "two")]
    const { decision } = yield* store.decide(supplying(1, one))
    assert.deepStrictEqual(decision, supplying(1, one))
    yield* put(blobs, "one")
    yield* store.decide(supplying(1, one))
    yield* store.decideAll([supplying(2, two), supplying(3)])
    assert.deepStrictEqual((yield* usesOf(blobs, [a])).toSorted(), ["run_a one", "run_a two"])
    const copy = {
      runId: b,
      sessionId: session("b"),
      agent: "root",
      status: "held",
      events: [
        said("0"),
        opened(external(b, 1)),
        decided({ ...supplying(1, one), requestId: requestId(b, 1) })
      ]
    } as const
    yield* store.restore([copy], [], [])
    assert.deepStrictEqual(yield* usesOf(blobs, [b]), ["run_b one"])
    yield* store.remove(b)
    yield* TestClock.adjust(graceTime + 1)
    yield* store.remove(a)
    assert.deepStrictEqual(yield* Effect.forEach([one, two], (ref) => has(blobs, ref)), [false, false])
  })

  test("writes no reference of a write that it refuses", function* (store, blobs) {
    const ref = yield* put(blobs, "hello")
    const lease = yield* started(store, a, { ttl: "1 minute" })
    const stale = { lease, expected: rev(0), events: [showing(ref)], status: "running" } as const
    yield* fails(store.append(stale), "RunConflict")
    yield* fails(store.park({ ...stale, status: "held" }), "RunConflict")
    yield* fails(started(store, a, { events: [showing(ref)] }), "RunExists")
    yield* fails(store.send(b, { content: [file(ref)] }), "RunNotFound")
    yield* store.send(a, saying("wait", "m1"))
    const parked = yield* store.park({ ...stale, expected: rev(1), status: "held" })
    assert.strictEqual(parked.parked, false)
    assert.deepStrictEqual(yield* blobs.uses([a, b]), [])
    // It is still expected to be used once.
    yield* ended(store, c, ref)
    yield* store.remove(c)
    assert.strictEqual(yield* has(blobs, ref), false)
  })

  test("stores the references of restored runs, of their mail and of a copy that replaces another", function* (store, blobs) {
    const refs = yield* blobs.putAll(["first", "rest", "mail", "more", "second"].map(bytes))
    const [first, rest, mail, more, second] = refs as [BlobRef, BlobRef, BlobRef, BlobRef, BlobRef]
    const request = approval(b, 1)
    const before = { runId: a, sessionId: session("s"), agent: "root", status: "completed" } as const
    const last = {
      runId: b,
      sessionId: session("s"),
      agent: "root",
      status: "held",
      parent: { runId: a, revision: rev(1) }
    } as const
    const message = (messageId: string, ref: BlobRef) => ({ messageId, content: [file(ref)], at: 1 })
    const older = { ...before, events: [showing(first)], rest: [showing(rest)] } as const
    const events = [showing(second), opened(request)] as const
    yield* store.restore([older, { ...last, events }], [], [message("m1", mail)])
    const all = ["run_a first", "run_a rest", "run_b mail", "run_b second"]
    assert.deepStrictEqual((yield* usesOf(blobs, [a, b])).toSorted(), all)
    const longer = { ...last, events: [...events, showing(more)] } as const
    yield* store.restore([older, longer], [{ ...approve(request.requestId), at: 2 }], [message("m1", mail)])
    assert.deepStrictEqual((yield* usesOf(blobs, [a, b])).toSorted(), [...all, "run_b more"].toSorted())
    yield* store.remove(b)
    yield* store.remove(a)
    assert.deepStrictEqual(yield* blobs.find(refs.map(({ sha256 }) => sha256)), [])
  })

  test("keeps no reference of a copy that it refuses, or of a part that it does not store", function* (store, blobs) {
    const [own, other] = (yield* blobs.putAll(["own", "other"].map(bytes))) as [BlobRef, BlobRef]
    const copy = {
      sessionId: session("s"),
      agent: "root",
      status: "completed",
      events: [showing(own)]
    } as const
    yield* store.restore([{ ...copy, runId: a }], [], [])
    yield* store.release(yield* claimed(store, a))
    yield* fails(store.restore([{ ...copy, runId: a, events: [showing(other)] }], [], []), "RunExists")
    const follower = {
      ...copy,
      runId: b,
      parent: { runId: a, revision: rev(1) },
      events: [said("0")]
    } as const
    yield* store.restore([{ ...copy, runId: a, rest: [showing(other)] }, follower], [], [])
    assert.deepStrictEqual(yield* usesOf(blobs, [a, b]), ["run_a own"])
  })

  test("keeps the contents of a run that a later run builds on", function* (store, blobs) {
    const ref = yield* put(blobs, "hello")
    yield* ended(store, a, ref)
    const parent = { runId: a, revision: rev(1) }
    yield* ended(store, d)
    yield* Effect.flatMap(started(store, b, { parent, status: "completed" }), store.release)
    yield* fails(store.remove(a), "RunContinued")
    yield* TestClock.adjust(graceTime + 1)
    yield* blobs.sweep({ storedBefore: graceTime })
    assert.strictEqual(yield* read(blobs, ref), "hello")
    assert.deepStrictEqual(yield* usesOf(blobs, [a, b]), ["run_a hello"])
  })

  test("keeps the contents of held and failed runs, and of runs that continue", function* (store, blobs) {
    const ref = yield* put(blobs, "hello")
    yield* heldOn(store, a, [approval(a, 1)])
    const lease = yield* claimed(store, a)
    yield* store.append({ lease, expected: rev(1), events: [showing(ref), failed], status: "error" })
    yield* store.append({ lease, expected: rev(3), events: [resumed], status: "running" })
    yield* TestClock.adjust(graceTime + 1)
    yield* store.prune({ endedBefore: graceTime })
    assert.deepStrictEqual(yield* usesOf(blobs, [a]), ["run_a hello"])
  })

  test("stores a content once when several processes store it at the same time", function* (store, blobs) {
    const large = new Uint8Array(300_000).fill(7)
    const puts = Array.from({ length: 8 }, (_, index) =>
      index % 2 === 0
        ? blobs.put(Stream.make(large))
        : Effect.map(blobs.putAll([large, bytes(String(index))]), ([ref]) => ref!)
    )
    const refs = yield* Effect.all(puts, { concurrency: "unbounded" })
    assert.strictEqual(new Set(refs.map(({ sha256 }) => sha256)).size, 1)
    const ref = refs[0]!
    for (let index = 0; index < 8; index += 1) {
      yield* ended(store, a, ref)
      assert.isTrue(yield* has(blobs, ref), String(index))
      yield* store.remove(a)
    }
    assert.strictEqual(yield* has(blobs, ref), false)
  })

  test("finds no damage in what it has stored", function* (store, blobs) {
    yield* ended(store, a, yield* put(blobs, "hello"), yield* blobs.put(Stream.empty))
    assert.deepStrictEqual(yield* Stream.runCollect(blobs.damaged), [])
  })

  test("refuses values that are no SHA-256, time or run id", function* (store, blobs) {
    const invalid = (effect: Effect.Effect<unknown, unknown>) =>
      Effect.map(Effect.flip(effect), (error) => {
        const { reason } = error as { readonly reason?: { readonly _tag: string } }
        assert.strictEqual(reason?._tag, "InputInvalid")
      })
    yield* invalid(Stream.runDrain(blobs.read("no digest" as never)))
    yield* invalid(Stream.runDrain(blobs.read(absent.sha256.toUpperCase() as never)))
    yield* invalid(Stream.runDrain(blobs.read(absent.sha256, { form: 1 } as never)))
    yield* invalid(blobs.find([7] as never))
    yield* invalid(blobs.find(Array.from({ length: 1001 }, () => absent.sha256)))
    yield* invalid(blobs.uses(Array.from({ length: 1001 }, () => a)))
    yield* invalid(blobs.sweep({ storedBefore: Number.NaN }))
    yield* invalid(blobs.putAll(["text"] as never))
    yield* invalid(blobs.put(Stream.make("text") as never))
    assert.deepStrictEqual(yield* store.list(), [])
  })
}
