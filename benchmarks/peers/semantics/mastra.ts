/**
 * Mastra: the run is a suspended run in its store; messages belong to a thread of its memory.
 */
import type { OpenHolding, Outcome, Waiting } from "../../semantics/Holding.ts"
import { type Asked, modelOf, opened } from "../mastra.ts"

const place = { thread: "run", resource: "user" }

const openIn = (prompt: Asked): number => {
  let open = 0
  for (const { content, role } of prompt) {
    if (role !== "assistant" && role !== "tool") continue
    for (const { type } of content) open += type === "tool-call" ? 1 : type === "tool-result" ? -1 : 0
  }
  return open
}

interface Handle {
  readonly runId: string
  readonly toolCallId: string
}

export const open: OpenHolding = async (folder, script) => {
  const model = modelOf((prompt) => script.ask(prompt, openIn(prompt)))
  const { agent, close, memory } = await opened(folder, script.tools, model, true)
  const waiting = async (): Promise<ReadonlyArray<Waiting>> =>
    (await agent.listSuspendedRuns()).runs.flatMap(({ runId, toolCalls }) =>
      toolCalls.map(({ args, toolCallId }) => ({
        build: (args as { readonly build: number }).build,
        handle: { runId, toolCallId }
      }))
    )
  const outcomeOf = (output: {
    readonly text: string
    readonly finishReason?: string | undefined
    readonly error?: Error | undefined
  }): Outcome => {
    if (output.error !== undefined) throw output.error
    return output.finishReason === "suspended"
      ? { status: "held" }
      : { status: "finished", text: output.text }
  }
  const say = async (text: string) => outcomeOf(await agent.generate(text, { memory: place, maxSteps: 100 }))
  return {
    start: async () => {
      await say(script.prompt)
    },
    waiting,
    approve: async (these) => {
      let outcome: Outcome = { status: "held" }
      for (const { handle } of these)
        outcome = outcomeOf(
          await agent.approveToolCallGenerate({ ...(handle as Handle), memory: place, maxSteps: 100 })
        )
      return outcome
    },
    say,
    // The store holds only suspended runs.
    recover: async () => ({ status: "held" }),
    ended: async () => {
      if ((await waiting()).length > 0) return undefined
      const { messages } = await memory!.recall({
        threadId: place.thread,
        resourceId: place.resource,
        perPage: false
      })
      const last = messages.at(-1)
      if (last?.role !== "assistant") return undefined
      const part = last.content.parts.at(-1)
      return part?.type === "text" ? part.text : undefined
    },
    close
  }
}
