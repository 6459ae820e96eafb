import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Queue from "effect/Queue"
import * as Stream from "effect/Stream"
import { iterable } from "../../src/promise/internal/iterable.ts"

const collected = async <A>(pieces: AsyncIterable<A>): Promise<ReadonlyArray<A>> => {
  const out: Array<A> = []
  for await (const piece of pieces) out.push(piece)
  return out
}

/** A stream of numbers that counts pulls and closes. */
const counting = (most = Number.POSITIVE_INFINITY) => {
  const seen = { asked: 0, closed: 0 }
  const stream = Stream.ensuring(
    Stream.unfold(1, (next) =>
      Effect.sync(() => {
        seen.asked += 1
        return next > most ? undefined : ([next, next + 1] as const)
      })
    ),
    Effect.sync(() => {
      seen.closed += 1
    })
  )
  return { seen, stream }
}

describe.each([false, true])("iterable, ahead: %s", (ahead) => {
  it("yields every piece in order, and ends", async () => {
    const pieces = Stream.concat(Stream.fromArray([1, 2, 3]), Stream.fromArray([4, 5]))
    assert.deepEqual(await collected(iterable(pieces, { ahead })), [1, 2, 3, 4, 5])
  })

  it("runs the stream for each iterator, on its first `next`", async () => {
    const { seen, stream } = counting(2)
    const pieces = iterable(stream, { ahead })
    pieces[Symbol.asyncIterator]()
    assert.deepEqual(seen, { asked: 0, closed: 0 })
    assert.deepEqual(await collected(pieces), [1, 2])
    assert.deepEqual(await collected(pieces), [1, 2])
    assert.strictEqual(seen.closed, 2)
  })

  it("closes the stream when its reader breaks", async () => {
    const { seen, stream } = counting()
    for await (const piece of iterable(stream, { ahead })) if (piece === 3) break
    assert.strictEqual(seen.closed, 1)
  })

  it("is done after `return`", async () => {
    const { stream } = counting()
    const iterator = iterable(stream, { ahead })[Symbol.asyncIterator]()
    await iterator.next()
    await iterator.return?.()
    assert.deepEqual(await iterator.next(), { done: true, value: undefined })
  })

  it("does not start the stream when `return` comes first", async () => {
    const { seen, stream } = counting()
    const iterator = iterable(stream, { ahead })[Symbol.asyncIterator]()
    await iterator.return?.()
    assert.deepEqual(await iterator.next(), { done: true, value: undefined })
    assert.deepEqual(seen, { asked: 0, closed: 0 })
  })

  it("rejects once with the stream's failure, after the pieces before it", async () => {
    const failing = Stream.concat(Stream.fromArray([1, 2]), Stream.fail(new Error("It broke.")))
    const iterator = iterable(failing, { ahead })[Symbol.asyncIterator]()
    assert.deepEqual(await iterator.next(), { done: false, value: 1 })
    assert.deepEqual(await iterator.next(), { done: false, value: 2 })
    const error: unknown = await iterator.next().catch((error: unknown) => error)
    assert.strictEqual(error instanceof Error ? error.message : error, "It broke.")
    assert.deepEqual(await iterator.next(), { done: true, value: undefined })
  })

  it("resolves concurrent `next` calls in order", async () => {
    const iterator = iterable(counting(2).stream, { ahead })[Symbol.asyncIterator]()
    const answers = await Promise.all([iterator.next(), iterator.next(), iterator.next(), iterator.next()])
    assert.deepEqual(
      answers.map(({ done, value }) => (done === true ? "end" : value)),
      [1, 2, "end", "end"]
    )
  })

  it("resolves a pending `next` on `return`", async () => {
    const queue = Effect.runSync(Queue.unbounded<number>())
    const iterator = iterable(Stream.fromQueue(queue), { ahead })[Symbol.asyncIterator]()
    const waiting = iterator.next()
    await iterator.return?.()
    assert.deepEqual(await waiting, { done: true, value: undefined })
  })
})

describe("iterable", () => {
  it("pulls only what was requested by default", async () => {
    const { seen, stream } = counting()
    const iterator = iterable(stream)[Symbol.asyncIterator]()
    await iterator.next()
    await iterator.next()
    assert.strictEqual(seen.asked, 2)
    await iterator.return?.()
  })

  it("reads ahead by one pull at most", async () => {
    const { seen, stream } = counting()
    const iterator = iterable(stream, { ahead: true })[Symbol.asyncIterator]()
    await iterator.next()
    await iterator.next()
    assert.strictEqual(seen.asked, 3)
    await iterator.return?.()
  })
})
