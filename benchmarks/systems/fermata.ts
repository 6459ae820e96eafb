/**
 * Fermata: in memory with `runPrompt`, stored with `createFermata` and a SQLite file, as `@fermata/node` provides them.
 */
import * as Path from "node:path"
import {
  agent,
  approve,
  ContextPolicy,
  createFermata,
  type Fermata,
  ModelClient,
  type ModelPart,
  type RunResult,
  Runtime,
  runPrompt,
  tool
} from "@fermata/node"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import { idle } from "../harness/measure.ts"
import type { Adapter, Answer, Held, Script } from "../System.ts"

const usage = { inputTokens: 1, outputTokens: 1, costUsd: 0 }

const partsOf = ({ calls = [], text }: Answer): ReadonlyArray<ModelPart.ModelPart> => [
  ...(text === undefined ? [] : [{ _tag: "text-delta", delta: text } as const]),
  ...calls.map((call) => ({ _tag: "tool-call", ...call, providerCallId: call.id }) as const),
  { _tag: "finish", finishReason: calls.length > 0 ? "toolCalls" : "stop", usage }
]

const streaming = (
  stream: ModelClient.ModelClient["Service"]["stream"]
): ModelClient.ModelClient["Service"] => ({
  stream,
  complete: () => Effect.die("This model only streams.")
})

const modelOf = ({ answer, pause }: Script): ModelClient.ModelClient["Service"] =>
  streaming(({ turn }) =>
    pause === undefined
      ? Stream.fromArray(partsOf(answer(turn)))
      : ModelClient.fromAsyncIterable(
          () => late(pause, () => partsOf(answer(turn))),
          (error) => error as never
        )
  )

const late = async function* (
  pause: NonNullable<Script["pause"]>,
  parts: () => ReadonlyArray<ModelPart.ModelPart>
): AsyncGenerator<ModelPart.ModelPart> {
  await pause()
  for (const part of parts()) yield part
}

const agentOf = ({ tools }: Script) =>
  agent("worker", {
    tools: tools.map(({ description, gated, name, parameters, run }) =>
      tool(name, {
        description,
        parameters: Schema.Struct(Object.fromEntries(parameters.map((key) => [key, Schema.Number]))),
        safety: gated ? "sideEffecting" : "readOnly",
        handler: (args) => run(args)
      })
    ),
    limits: { maxTurns: 1_000_000 }
  })

const textOf = (result: RunResult.RunResult): string => {
  if (result.status !== "completed") throw new Error(`The run is ${result.status}.`)
  return result.text
}

const inMemory = async (script: Script) => {
  const runtime = await Effect.runPromise(
    Effect.provideService(Runtime.make({ agent: agentOf(script) }), ModelClient.ModelClient, modelOf(script))
  )
  return () => Effect.runPromise(Effect.map(runPrompt(runtime, { prompt: script.prompt }), textOf))
}

const open = (folder: string, script: Script): Promise<Fermata.Fermata> =>
  createFermata({
    agents: [agentOf(script)],
    model: modelOf(script),
    // No compared system summarizes a conversation, and this model has no summary to give.
    contextPolicy: ContextPolicy.everything,
    store: Path.join(folder, "fermata.db")
  })

const sessionId = "conversation"

const saying = (answer: () => string): Script => ({
  prompt: "",
  tools: [],
  answer: () => ({ text: answer() })
})

export const adapter: Adapter = {
  step: inMemory,
  fanOut: inMemory,
  parallel: inMemory,
  stored: async (folder, script) => {
    const fermata = await open(folder, script)
    return {
      run: async () => textOf(await fermata.runPrompt("worker", script.prompt)),
      close: fermata.close
    }
  },
  hold: {
    prepare: async (folder, history) => {
      let said = ""
      const fermata = await open(
        folder,
        saying(() => said)
      )
      for (const [at, message] of history.entries()) {
        if (message.role !== "user") continue
        said = history[at + 1]?.text ?? ""
        textOf(await fermata.runPrompt("worker", message.text, { sessionId }))
        // A person takes longer than this until the next message.
        await idle()
      }
      await fermata.close()
    },
    open: async (folder, script) => {
      const fermata = await open(folder, script)
      return {
        start: async () => {
          const result = await fermata.runPrompt("worker", script.prompt, { sessionId })
          if (result.status !== "interrupted") throw new Error(`The run is ${result.status}, not held.`)
        },
        finish: async () => {
          const [waiting] = await fermata.pending()
          if (waiting === undefined) throw new Error("Nothing is held.")
          await fermata.decide(waiting, approve())
          return textOf(await fermata.resume(waiting.runId))
        },
        close: fermata.close
      }
    }
  },
  stream: async ({ deltas, prompt }) => {
    const parts = async function* (): AsyncGenerator<ModelPart.ModelPart> {
      for (const delta of deltas) yield { _tag: "text-delta", delta }
      yield { _tag: "finish", finishReason: "stop", usage }
    }
    const model = streaming(() => ModelClient.fromAsyncIterable(parts, (error) => error as never))
    const runtime = await Effect.runPromise(
      Effect.provideService(Runtime.make({ agent: agent("worker") }), ModelClient.ModelClient, model)
    )
    return async () => {
      let count = 0
      let characters = 0
      const result = await Effect.runPromise(
        runPrompt(
          runtime,
          { prompt },
          {
            onUpdate: (update) => {
              if (update._tag !== "delta" || update.part._tag !== "text-delta") return
              count += 1
              characters += update.part.delta.length
            }
          }
        )
      )
      if (textOf(result).length !== characters) throw new Error("The answer is not what was streamed.")
      return { deltas: count, characters }
    }
  },
  conversation: async (folder, answer) => {
    const fermata = await open(
      folder,
      saying(() => answer)
    )
    return {
      say: async (text) => textOf(await fermata.runPrompt("worker", text, { sessionId })),
      close: fermata.close
    }
  },
  inbox: async (folder, script) => {
    const fermata = await open(folder, script)
    return {
      hold: async () => {
        const result = await fermata.runPrompt("worker", script.prompt)
        if (result.status !== "interrupted") throw new Error(`The run is ${result.status}, not held.`)
      },
      list: async (limit) =>
        (await fermata.pending({ limit })).map((waiting): Held => ({
          approve: async () => {
            await fermata.decide(waiting, approve())
          },
          resume: async () => textOf(await fermata.resume(waiting.runId))
        })),
      close: fermata.close
    }
  }
}
