/**
 * The search for the secrets of `leakingRun.ts`, and a run that leaks them in this process.
 */
import { type Id, RunStore } from "@fermata/sdk"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Stream from "effect/Stream"
import { cores, environment, play, shown } from "./programs/leakingRun.ts"

const longest = 8

/** Every piece of eight characters of a secret, in every encoding. */
const pieces = Object.values(cores).flatMap((core) =>
  Array.from({ length: core.length - longest + 1 }, (_, at) => core.slice(at, at + longest)).flatMap(
    (piece) => {
      const hex = Buffer.from(piece).toString("hex")
      const base64 = [0, 1, 2].map((offset) =>
        Buffer.from(`${"-".repeat(offset)}${piece}`)
          .toString("base64")
          .replace(/=+$/, "")
          .slice(offset === 0 ? 0 : offset + 1, -1)
      )
      return [piece, hex, hex.toUpperCase(), ...base64].map((form) => Buffer.from(form))
    }
  )
)

/** The pieces of secrets in bytes. */
export const found = (bytes: Buffer): ReadonlyArray<string> =>
  pieces.filter((piece) => bytes.includes(piece)).map((piece) => piece.toString())

/**
 * Plays the run in this process: it is interrupted in the middle instead of killed. Returns all that it emits, and all that the store returns
 * of it.
 */
export const playThrough = Effect.gen(function* () {
  Object.assign(process.env, environment)
  const emitted: Array<string> = []
  const emit = (place: string, value: unknown) => void emitted.push(`${place} ${shown(value)}`)
  const isReady = yield* Deferred.make<void>()
  const first = yield* Effect.forkChild(play("start", emit, () => Deferred.doneUnsafe(isReady, Effect.void)))
  yield* Deferred.await(isReady)
  yield* Fiber.interrupt(first)
  yield* play("finish", emit, () => {})
  const store = yield* RunStore.RunStore
  const runIds = ["leaking", "next", "other"].map((runId) => runId as Id.RunId)
  for (const runId of runIds) emit("stored", yield* store.load(runId))
  const { read, uses } = store.blobs!
  const contents = yield* Effect.forEach(yield* uses(runIds), ({ ref }) =>
    Stream.runCollect(read(ref.sha256))
  )
  return [Buffer.from(emitted.join("\n")), Buffer.concat(contents.flat())] as const
})
