/**
 * The text of a run as it is written, and the result at its end: `stream` and `resumeStream` of a Fermata.
 */
import type { Agent } from "../../agent/AgentDefinition.ts"
import type { RunUpdate } from "../../agent/RunUpdate.ts"
import type { Shape } from "../../domain/internal/misfits.ts"
import { textOf } from "../../domain/Message.ts"
import type { Prompt } from "../../run/Mail.ts"
import type { RunResult } from "../../run/RunResult.ts"
import type { Agents } from "./bindAgents.ts"
import type { PromptOptions, ResumeOptions } from "./options.ts"
import { requireKnown, resumeShape } from "./shapes.ts"

/**
 * A run that is being streamed. Iterating over it yields the text of the run itself, without that of its sub-agents, piece by piece, and
 * ends when the run is held or has ended. It is for one iteration: after that has ended or was left, another one yields nothing.
 *
 * The iteration throws the error of a run that failed, which is also in `result`, or the error with which `result` rejects. It may be left
 * at any time: the run continues, and `result` still resolves.
 *
 * @category models
 * @since 0.1.0
 */
export interface RunStream<Output = unknown> extends AsyncIterable<string> {
  /** The id of the run. If `resumeStream` starts the session's next run, the id of the run before it; the new id is in the result. */
  readonly runId: string
  /** Resolves to the result when the run is held or has ended, also if it failed. Rejects with the errors of `runPrompt` or `resume`. */
  readonly result: Promise<RunResult<Output>>
}

/** Makes the method that starts a run and streams its text. */
export const makeTextStream =
  <Given extends PromptOptions>(options: {
    readonly agents: Agents
    readonly shape: Shape
    readonly runPrompt: Streaming<Given, Promise<RunResult<unknown>>>
  }) =>
  <Output>(agent: string | Agent<never, Output>, prompt: Prompt, given?: Given): RunStream<Output> => {
    const { agents, runPrompt, shape } = options
    const runId = given?.runId ?? agents.newRunId()
    return textStream(runId, given?.onUpdate, async (onUpdate) => {
      requireKnown("stream", given, shape)
      return runPrompt(agent, prompt, { ...(given as Given), runId, onUpdate }) as Promise<RunResult<Output>>
    })
  }

/** Makes the method that resumes a run and streams the text that follows. `idOf` reads the id of the run that is resumed. */
export const makeResumeStream =
  <Resumed>(options: {
    readonly idOf: (resumed: Resumed) => string
    readonly resume: <Output>(resumed: Resumed, given: ResumeOptions<Output>) => Promise<RunResult<Output>>
  }) =>
  <Output>(resumed: Resumed, given?: ResumeOptions<Output>): RunStream<Output> =>
    textStream(options.idOf(resumed), given?.onUpdate, async (onUpdate) => {
      requireKnown("resumeStream", given, resumeShape)
      return options.resume(resumed, { ...given, onUpdate })
    })

const textStream = <Output>(
  runId: string,
  onUpdate: PromptOptions["onUpdate"],
  start: (onUpdate: (update: RunUpdate) => unknown) => Promise<RunResult<Output>>
): RunStream<Output> => {
  const reading = new TextReading()
  const result = start((update) => {
    reading.push(update)
    return onUpdate?.(update)
  })
  result.then(
    (ended) => reading.end(ended.status === "error" ? { error: ended.error } : undefined),
    (error: unknown) => reading.end({ error })
  )
  return { runId, result, [Symbol.asyncIterator]: () => reading }
}

type Streaming<Given, Result> = (
  agent: string | Agent<never, unknown>,
  prompt: Prompt,
  given: Given
) => Result

interface Waiter {
  readonly resolve: (result: IteratorResult<string>) => void
  readonly reject: (error: unknown) => void
}

const end: IteratorResult<never> = { done: true, value: undefined }

/** The text that was not read yet, as one string, so that a slow reader receives larger pieces. */
class TextReading implements AsyncIterableIterator<string> {
  private unread = ""
  /** The text of the current answer that was received in parts. */
  private streamed = ""
  private isOver = false
  private failure: { readonly error: unknown } | undefined
  private readonly waiters: Array<Waiter> = []

  push(update: RunUpdate): void {
    if (this.isOver) return
    if (update._tag === "delta" && update.part._tag === "text-delta" && update.agentRunId === update.runId) {
      this.streamed += update.part.delta
      this.add(update.part.delta)
    } else if (update._tag === "event" && update.event._tag === "model.answered") {
      // A complete answer has no parts, and the end of a streamed one may have come without them.
      const text = textOf(update.event.content.filter((part) => part._tag === "text"))
      if (text.startsWith(this.streamed)) this.add(text.slice(this.streamed.length))
      this.streamed = ""
    }
  }

  end(failure?: { readonly error: unknown }): void {
    if (this.isOver) return
    this.isOver = true
    this.failure = failure
    if (failure !== undefined && this.waiters.length > 0) {
      this.failure = undefined
      this.waiters.shift()?.reject(failure.error)
    }
    for (const { resolve } of this.waiters.splice(0)) resolve(end)
  }

  next(): Promise<IteratorResult<string>> {
    if (this.unread !== "") {
      const value = this.unread
      this.unread = ""
      return Promise.resolve({ done: false, value })
    }
    const { failure } = this
    this.failure = undefined
    if (failure !== undefined) return Promise.reject(failure.error)
    if (this.isOver) return Promise.resolve(end)
    return new Promise((resolve, reject) => {
      this.waiters.push({ resolve, reject })
    })
  }

  /** Stops reading. The run continues. */
  return(): Promise<IteratorResult<string>> {
    this.end()
    this.failure = undefined
    this.unread = ""
    return Promise.resolve(end)
  }

  [Symbol.asyncIterator](): this {
    return this
  }

  private add(text: string): void {
    if (text === "") return
    const waiter = this.waiters.shift()
    if (waiter === undefined) this.unread += text
    else waiter.resolve({ done: false, value: text })
  }
}
