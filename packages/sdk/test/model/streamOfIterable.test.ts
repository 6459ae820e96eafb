import { assert, describe, it } from "@effect/vitest"
import * as Cause from "effect/Cause"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Stream from "effect/Stream"
import { reading } from "../../src/model/internal/streamOfIterable.ts"
import { collect, fromAsyncIterable } from "../../src/model/ModelClient.ts"
import { makeCollector, type ModelPart, type ModelResponse } from "../../src/model/ModelPart.ts"

const usage = { inputTokens: 1, cachedInputTokens: 0, outputTokens: 2, reasoningTokens: 0 }
const finish: ModelPart = { _tag: "finish", finishReason: "stop", usage }
const say = (delta: string): ModelPart => ({ _tag: "text-delta", delta })

class Broken extends Error {
  readonly _tag = "Broken"
}
const broken = (error: unknown) => (error instanceof Broken ? error : new Broken(String(error)))

/** An answer whose generator counts its starts and closes. */
const answering = (parts: () => AsyncGenerator<ModelPart>) => {
  const seen = { opened: 0, closed: 0 }
  const stream = fromAsyncIterable(async function* () {
    seen.opened += 1
    try {
      yield* parts()
    } finally {
      seen.closed += 1
    }
  }, broken)
  return { seen, stream }
}

/** Reads a stream like a run. */
const follow = <E>(stream: Stream.Stream<ModelPart, E>, onPart: (part: ModelPart) => void) =>
  Effect.suspend(() => {
    const collector = makeCollector()
    const begun = reading(stream, { add: (part) => (collector.add(part), onPart(part)) })
    if (Effect.isEffect(begun)) return Effect.die(new Error("It is read by an effect."))
    return Effect.callback<ModelResponse | undefined, E>((resume) => {
      let isOver = false
      let stopped = () => {}
      begun.follow({
        ended: (exit) => {
          isOver = true
          resume(Exit.map(exit, () => collector.response()))
          stopped()
        }
      })
      return Effect.callback<void>((resume) => {
        stopped = () => resume(Effect.void)
        begun.stop()
        if (isOver) stopped()
      })
    })
  })

/** The ways to read a stream: directly, by a run and through operators. */
const readers: ReadonlyArray<
  readonly [
    string,
    <E>(
      stream: Stream.Stream<ModelPart, E>,
      onPart: (part: ModelPart) => void
    ) => Effect.Effect<unknown, unknown>
  ]
> = [
  ["as it is", collect],
  ["by a run", follow],
  [
    "through an operator",
    (stream, onPart) =>
      collect(
        Stream.map(stream, (part) => part),
        onPart
      )
  ],
  [
    "as a stream",
    (stream, onPart) => {
      const collector = makeCollector()
      const read = Stream.runForEach(stream, (part) => Effect.sync(() => (collector.add(part), onPart(part))))
      return Effect.map(read, () => collector.response())
    }
  ]
]

describe.each(readers)("fromAsyncIterable, read %s", (_, read) => {
  it.effect("emits every part in order, and collects to the answer", () =>
    Effect.gen(function* () {
      const { seen, stream } = answering(async function* () {
        for (const word of ["a", "b", "c"]) yield say(word)
        yield finish
      })
      const parts: Array<ModelPart> = []
      const response = yield* read(stream, (part) => void parts.push(part))
      assert.deepEqual(parts, [say("a"), say("b"), say("c"), finish])
      assert.deepEqual(response, { content: [{ _tag: "text", text: "abc" }], finishReason: "stop", usage })
      assert.deepEqual(seen, { opened: 1, closed: 1 })
    })
  )

  it.effect("is opened for each run of the stream", () =>
    Effect.gen(function* () {
      const { seen, stream } = answering(async function* () {
        yield finish
      })
      yield* read(stream, () => {})
      yield* read(stream, () => {})
      assert.deepEqual(seen, { opened: 2, closed: 2 })
    })
  )

  it.effect("fails with the iterable's error after the parts before it", () =>
    Effect.gen(function* () {
      const { stream } = answering(async function* () {
        yield say("a")
        throw new Broken("The line is dead.")
      })
      const parts: Array<ModelPart> = []
      const error = yield* Effect.flip(read(stream, (part) => void parts.push(part)))
      assert.instanceOf(error, Broken)
      assert.deepEqual(parts, [say("a")])
    })
  )

  it.effect("closes the generator when the reader fails", () =>
    Effect.gen(function* () {
      const { seen, stream } = answering(async function* () {
        yield say("a")
        yield finish
      })
      const exit = yield* Effect.exit(
        read(stream, () => {
          throw new Error("I cannot read.")
        })
      )
      assert.isTrue(Exit.isFailure(exit) && Cause.hasDies(exit.cause))
      assert.deepEqual(seen, { opened: 1, closed: 1 })
    })
  )

  it.effect("is interrupted while a part is pending", () =>
    Effect.gen(function* () {
      const begun = yield* Deferred.make<void>()
      const { stream } = answering(async function* () {
        yield say("a")
        await new Promise(() => {})
      })
      const fiber = yield* Effect.forkChild(
        read(stream, () => Deferred.doneUnsafe(begun, Effect.void)),
        { startImmediately: true }
      )
      yield* Deferred.await(begun)
      yield* Fiber.interrupt(fiber)
      assert.isTrue(Exit.hasInterrupts(yield* Fiber.await(fiber)))
    })
  )

  it.effect("stops pulling when it is interrupted by its subscriber", () =>
    Effect.gen(function* () {
      const parts: Array<ModelPart> = []
      let fiber: Fiber.Fiber<unknown, unknown> | undefined
      const { seen, stream } = answering(async function* () {
        for (;;) yield say("more")
      })
      fiber = yield* Effect.forkChild(
        read(stream, (part) => {
          parts.push(part)
          if (parts.length === 3) fiber?.interruptUnsafe()
        }),
        { startImmediately: true }
      )
      const exit = yield* Fiber.await(fiber)
      assert.isTrue(Exit.hasInterrupts(exit))
      assert.strictEqual(parts.length, 3)
      assert.deepEqual(seen, { opened: 1, closed: 1 })
    })
  )

  it.effect("stops pulling from an iterator without `return`", () =>
    Effect.gen(function* () {
      let asked = 0
      let fiber: Fiber.Fiber<unknown, unknown> | undefined
      const next = async () => {
        asked += 1
        return { done: false, value: say("more") }
      }
      const stream = fromAsyncIterable(() => ({ [Symbol.asyncIterator]: () => ({ next }) }), broken)
      fiber = yield* Effect.forkChild(
        read(stream, () => {
          if (asked === 3) fiber?.interruptUnsafe()
        }),
        { startImmediately: true }
      )
      assert.isTrue(Exit.hasInterrupts(yield* Fiber.await(fiber)))
      for (let turn = 0; turn < 10; turn++) yield* Effect.promise(() => Promise.resolve())
      assert.strictEqual(asked, 3)
    })
  )

  it.effect("yields to other fibers while parts are available", () =>
    Effect.gen(function* () {
      let said = 0
      const begun = yield* Deferred.make<void>()
      const { seen, stream } = answering(async function* () {
        for (; said < 1_000_000; said += 1) yield say("more")
      })
      const fiber = yield* Effect.forkChild(
        read(stream, () => Deferred.doneUnsafe(begun, Effect.void)),
        { startImmediately: true }
      )
      yield* Deferred.await(begun)
      // Like a fiber that a timer or the network wakes.
      yield* Effect.yieldNow
      yield* Fiber.interrupt(fiber)
      assert.isTrue(Exit.hasInterrupts(yield* Fiber.await(fiber)))
      assert.isBelow(said, 10_000)
      assert.deepEqual(seen, { opened: 1, closed: 1 })
    })
  )

  it.effect("emits 2,000 parts in order", () =>
    Effect.gen(function* () {
      const { stream } = answering(async function* () {
        for (let n = 0; n < 2000; n += 1) yield say(String(n))
        yield finish
      })
      const parts: Array<ModelPart> = []
      yield* read(stream, (part) => void parts.push(part))
      assert.deepEqual(parts, [...Array.from({ length: 2000 }, (_, n) => say(String(n))), finish])
    })
  )

  it.effect("fails when the iterator returns an invalid result", () =>
    Effect.gen(function* () {
      const next = (() => Promise.resolve(undefined)) as unknown as AsyncIterator<ModelPart>["next"]
      const stream = fromAsyncIterable(() => ({ [Symbol.asyncIterator]: () => ({ next }) }), broken)
      assert.instanceOf(yield* Effect.flip(read(stream, () => {})), Broken)
    })
  )

  it.effect("reads an iterator that returns results synchronously", () =>
    Effect.gen(function* () {
      const parts = [say("a"), finish]
      const next = (() => ({
        done: false,
        value: parts.shift()
      })) as unknown as AsyncIterator<ModelPart>["next"]
      const ended = (() => (parts.length > 0 ? next() : { done: true })) as unknown as typeof next
      const stream = fromAsyncIterable(() => ({ [Symbol.asyncIterator]: () => ({ next: ended }) }), broken)
      const response = yield* read(stream, () => {})
      assert.deepEqual(response, { content: [{ _tag: "text", text: "a" }], finishReason: "stop", usage })
    })
  )
})
