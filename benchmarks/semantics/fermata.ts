/**
 * Fermata with `createFermata` and a SQLite file.
 */
import * as Path from "node:path"
import {
  agent,
  approve,
  createFermata,
  type Fermata,
  isAlreadyDecided,
  isRunBusy,
  type ModelClient,
  type ModelPart,
  type RunResult,
  RunState,
  supply,
  tool
} from "@fermata/node"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import type { HeldScript, OpenHolding, Outcome, Waiting } from "./Holding.ts"

const runId = "run"

type Pending = Awaited<ReturnType<Fermata.Fermata["pending"]>>[number]

const modelOf = ({ ask }: HeldScript): ModelClient.ModelClient["Service"] => ({
  stream: ({ messages }) => {
    let open = 0
    for (const message of messages) {
      if (message.role === "tool") open -= 1
      if (message.role === "assistant")
        open += message.content.filter(({ _tag }) => _tag === "toolCall").length
    }
    const { calls = [], text } = ask(messages, open)
    const parts: ReadonlyArray<ModelPart.ModelPart> = [
      ...(text === undefined ? [] : [{ _tag: "text-delta", delta: text } as const]),
      ...calls.map((call) => ({ _tag: "tool-call", ...call, providerCallId: call.id }) as const),
      {
        _tag: "finish",
        finishReason: calls.length > 0 ? "toolCalls" : "stop",
        usage: { inputTokens: 1, outputTokens: 1 }
      }
    ]
    return Stream.fromArray(parts)
  },
  complete: () => Effect.die("This model only streams.")
})

const outcomeOf = (result: RunResult.RunResult): Outcome => {
  if (result.status === "completed") return { status: "finished", text: result.text }
  if (result.status !== "interrupted") throw new Error(`The run is ${result.status}.`)
  return { status: result.interruptions.some(({ _tag }) => _tag === "inDoubt") ? "asks" : "held" }
}

export const open: OpenHolding = async (folder, script) => {
  const fermata = await createFermata({
    agents: [
      agent("worker", {
        tools: script.tools.map(({ description, name, parameters, run }) =>
          tool(name, {
            description,
            parameters: Schema.Struct(Object.fromEntries(parameters.map((key) => [key, Schema.Number]))),
            safety: "sideEffecting",
            handler: (args) => run(args)
          })
        )
      })
    ],
    model: modelOf(script),
    store: Path.join(folder, "fermata.db"),
    leaseTtl: "1 second"
  })
  const pending = () => fermata.pending({})
  return {
    start: async () => {
      const { status } = outcomeOf(await fermata.runPrompt("worker", script.prompt, { runId }))
      if (status !== "held") throw new Error("The run is not held.")
    },
    waiting: async () =>
      (await pending()).flatMap((handle): ReadonlyArray<Waiting> => {
        const { request } = handle
        if (request._tag !== "approval") return []
        return [{ build: (request.arguments as { readonly build: number }).build, handle }]
      }),
    approve: async (these) => {
      for (const { handle } of these)
        try {
          await fermata.decide(handle as Pending, approve())
        } catch (error) {
          // Another process has approved it. The first process that resumes the run continues it, so this one tries too.
          if (!isAlreadyDecided(error)) throw error
        }
      return outcomeOf(await fermata.resume(runId))
    },
    say: async (text) => {
      await fermata.send(runId, text)
      return { status: (await pending()).length > 0 ? "held" : "finished" }
    },
    recover: async () => {
      for (;;) {
        try {
          return outcomeOf(await fermata.resume(runId))
        } catch (error) {
          // The dead process keeps the run until its lease expires.
          if (!isRunBusy(error)) throw error
          await new Promise((resolve) => setTimeout(resolve, Math.max(error.until - Date.now(), 10)))
        }
      }
    },
    supply: async (result) => {
      for (const doubt of await pending()) await fermata.decide(doubt, supply(result))
      return outcomeOf(await fermata.resume(runId))
    },
    ended: async () => {
      const state = await fermata.state(runId)
      return state.status === "completed" ? RunState.text(state) : undefined
    },
    close: fermata.close
  }
}
