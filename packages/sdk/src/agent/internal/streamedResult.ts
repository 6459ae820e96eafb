/**
 * The results of tools that stream: publishes the output and progress among the items of a tool, and keeps its last result.
 */
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Stream from "effect/Stream"
import { hintFor } from "../../domain/internal/misfits.ts"
import { isOutputChunk } from "../../tool/internal/outputChunk.ts"
import type { OutputChunk, ToolContext } from "../../tool/ToolContext.ts"
import { ToolFailure } from "../../tool/ToolError.ts"
import { isTurnDue, turn } from "./eventLoop.ts"

/** The functions of a call's context that publish. */
type Publisher = Pick<ToolContext, "output" | "progress">

/** The items that a tool has streamed so far. */
class Items {
  private last: { readonly result: unknown } | undefined = undefined
  private readonly publisher: Publisher

  constructor(publisher: Publisher) {
    this.publisher = publisher
  }

  /** Takes an item. Returns the failure of an item that has another shape. */
  take(item: unknown): Exit.Exit<never, ToolFailure> | undefined {
    const problem = problemOf(item)
    if (problem !== undefined) return failure(`it streamed ${problem}`)
    const { output, progress, result } = item as Partial<Record<Key, unknown>>
    if (isOutput(output)) this.publisher.output(output)
    else if (typeof progress === "string") this.publisher.progress(progress)
    else this.last = { result }
    return undefined
  }

  /** The last result, or the failure of a stream without one. */
  get result(): Exit.Exit<unknown, ToolFailure> {
    return this.last === undefined ? failure("it ended without a result") : Exit.succeed(this.last.result)
  }
}

type Key = "output" | "progress" | "result"

const keys: ReadonlyArray<string> = ["output", "progress", "result"] satisfies ReadonlyArray<Key>

const failure = (problem: string): Exit.Exit<never, ToolFailure> =>
  Exit.fail(
    new ToolFailure({
      description: `${problem}. A tool that streams gives { output: text }, { progress: text } and, at last, { result: value }.`
    })
  )

const isOutput = (output: unknown): output is string | OutputChunk =>
  typeof output === "string" || isOutputChunk(output)

/** What is wrong with an item, in words; `undefined` if nothing is. */
const problemOf = (item: unknown): string | undefined => {
  if (typeof item !== "object" || item === null)
    return `a value of type ${item === null ? "null" : typeof item}`
  const given = Object.keys(item).filter((key) => (item as Record<string, unknown>)[key] !== undefined)
  const unknown = given.find((key) => !keys.includes(key))
  if (unknown !== undefined) return `an item with "${unknown.slice(0, 100)}"${hintFor(unknown, keys)}`
  if (given.length > 1) return `an item with both ${given.join(" and ")}`
  const { output, progress } = item as Partial<Record<Key, unknown>>
  if (output !== undefined && !isOutput(output)) return `an output that is not text`
  if (progress !== undefined && typeof progress !== "string") return "a progress that is not text"
  return given.length === 1 || "result" in item ? undefined : "an item without fields"
}

/** Reads a stream to its end, and returns its last result. */
export const readStream = <E, R>(
  stream: Stream.Stream<unknown, E, R>,
  publisher: Publisher
): Effect.Effect<unknown, E | ToolFailure, R> =>
  Effect.suspend(() => {
    const items = new Items(publisher)
    return Effect.andThen(
      Stream.runForEach(stream, (item) => Effect.suspend(() => items.take(item) ?? Effect.void)),
      Effect.suspend(() => items.result)
    )
  })

/** Reads an async iterable, such as an async generator, until it ends, gives an item that does not fit, or is closed. */
export class Reading {
  private readonly iterator: AsyncIterator<unknown, unknown>
  private readonly items: Items
  private isOver = false
  /** Set by a stop: settles when the iterator is closed, so that a generator has run its `finally`. */
  private closed: Promise<unknown> | undefined = undefined

  constructor(iterable: AsyncIterable<unknown>, publisher: Publisher) {
    this.iterator = iterable[Symbol.asyncIterator]()
    this.items = new Items(publisher)
  }

  /** Reads to the end, and resolves to the last result or the failure of the items. */
  async read(): Promise<Exit.Exit<unknown, ToolFailure>> {
    while (this.closed === undefined) {
      const step = await this.iterator.next()
      if (step.done === true) this.isOver = true
      const misfit = step.done === true && step.value === undefined ? undefined : this.items.take(step.value)
      if (misfit !== undefined) {
        await this.close()
        return misfit
      }
      if (this.isOver) break
      // A generator that never waits would keep the signal of its stop from arriving.
      if (isTurnDue()) await Effect.runPromise(turn)
    }
    await this.closed
    return this.items.result
  }

  /** Closes the iterator. Resolves when it is closed. */
  close(): Promise<unknown> {
    return (this.closed ??= this.isOver ? Promise.resolve() : closing(this.iterator))
  }
}

const closing = async (iterator: AsyncIterator<unknown>): Promise<void> => {
  // What fails while it closes is not the result of the call.
  await Promise.resolve(iterator.return?.()).catch(() => {})
}
