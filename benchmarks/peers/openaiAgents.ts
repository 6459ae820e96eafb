/**
 * OpenAI Agents with `run`. Its state is the text of a `RunState`, or the list of items after a run, which the program keeps: here in
 * one row of a table.
 */
import {
  Agent,
  type AgentInputItem,
  type AssistantMessageItem,
  type Model,
  type ModelRequest,
  type ModelResponse,
  run,
  RunState,
  type StreamEvent,
  tool,
  Usage
} from "@openai/agents"
import { z } from "zod"
import type { Adapter, Answer, Held, Script } from "../System.ts"
import { numbered, openBlobs } from "./blobs.ts"
import { turnByLength, turnByRoles } from "./turns.ts"

const saying = (text: string): AssistantMessageItem => ({
  type: "message",
  role: "assistant",
  status: "completed",
  content: [{ type: "output_text", text }]
})

const outputOf = ({ calls = [], text }: Answer): ModelResponse["output"] => [
  ...(text === undefined ? [] : [saying(text)]),
  ...calls.map(
    (call) =>
      ({
        type: "function_call",
        callId: call.id,
        name: call.name,
        arguments: call.arguments,
        status: "completed"
      }) as const
  )
]

const modelOf = (answer: (input: ModelRequest["input"]) => Answer | Promise<Answer>): Model => ({
  getResponse: async ({ input }) => ({
    usage: new Usage({ requests: 1, inputTokens: 1, outputTokens: 1, totalTokens: 2 }),
    output: outputOf(await answer(input))
  }),
  getStreamedResponse: () => {
    throw new Error("This model does not stream.")
  }
})

const turnInHistory = (input: ModelRequest["input"]): number =>
  typeof input === "string"
    ? 1
    : turnByRoles(input, (item) =>
        item.type === "function_call"
          ? "assistant"
          : "role" in item && item.role === "user"
            ? "user"
            : "other"
      )

/** Gated tools need approval. */
export const agentWith = (
  tools: Script["tools"],
  answer: (input: ModelRequest["input"]) => Answer | Promise<Answer>
) =>
  new Agent({
    name: "worker",
    model: modelOf(answer),
    tools: tools.map(({ description, gated, name, parameters, run }) =>
      tool({
        name,
        description,
        parameters: z.object(Object.fromEntries(parameters.map((key) => [key, z.number()]))),
        needsApproval: gated,
        execute: (args) => run(args as Readonly<Record<string, number>>)
      })
    )
  })

const agentOf = ({ answer, pause, tools }: Script, turnOf: (input: ModelRequest["input"]) => number) =>
  agentWith(tools, async (input) => {
    if (pause !== undefined) await pause()
    return answer(turnOf(input))
  })

const unlimited = { maxTurns: null }

const textOf = ({ finalOutput }: { readonly finalOutput?: unknown }): string => {
  if (typeof finalOutput !== "string") throw new Error("The run did not come to an end.")
  return finalOutput
}

const inMemory = async (script: Script) => {
  const turn = turnByLength(script)
  const agent = agentOf(script, (input) => (typeof input === "string" ? 1 : turn(input.length)))
  return async () => textOf(await run(agent, script.prompt, unlimited))
}

type Worker = ReturnType<typeof agentOf>

/** Runs until a call needs approval; returns the text of its state. */
const untilHeld = async (
  agent: Worker,
  history: ReadonlyArray<AgentInputItem>,
  prompt: string
): Promise<string> => {
  const result = await run(agent, [...history, { role: "user", content: prompt }], unlimited)
  if (result.interruptions.length === 0) throw new Error("The run was not held.")
  return result.state.toString()
}

const approved = async (agent: Worker, text: string | undefined) => {
  const state = await RunState.fromString(agent, text ?? "")
  const interruptions = state.getInterruptions()
  if (interruptions.length === 0) throw new Error("Nothing is held.")
  for (const interruption of interruptions) state.approve(interruption)
  return state
}

const parse = (text: string | undefined): Array<AgentInputItem> =>
  text === undefined ? [] : (JSON.parse(text) as Array<AgentInputItem>)

export const adapter: Adapter = {
  step: inMemory,
  fanOut: inMemory,
  parallel: inMemory,
  stored: {
    cannot:
      "it writes nothing while a run is being driven: a `RunState` exists when the run is held or has ended, and the `Session` is updated then."
  },
  hold: {
    prepare: async (folder, history) => {
      const blobs = openBlobs(folder)
      const items = history.map(({ role, text }) =>
        role === "user" ? { role, content: text } : saying(text)
      )
      blobs.write("conversation", JSON.stringify(items))
      await blobs.close()
    },
    open: async (folder, script) => {
      const blobs = openBlobs(folder)
      const agent = agentOf(script, turnInHistory)
      return {
        start: async () =>
          blobs.write("held", await untilHeld(agent, parse(blobs.read("conversation")), script.prompt)),
        finish: async () => {
          const result = await run(agent, await approved(agent, blobs.read("held")), unlimited)
          blobs.write("conversation", JSON.stringify(result.history))
          blobs.remove("held")
          return textOf(result)
        },
        close: blobs.close
      }
    }
  },
  stream: async ({ deltas, prompt }) => {
    const text = deltas.join("")
    const model: Model = {
      getResponse: () => Promise.reject(new Error("This model only streams.")),
      getStreamedResponse: async function* (): AsyncGenerator<StreamEvent> {
        yield { type: "response_started" }
        for (const delta of deltas) yield { type: "output_text_delta", delta }
        yield {
          type: "response_done",
          response: {
            id: "response",
            usage: { inputTokens: 1, outputTokens: 1, totalTokens: 2 },
            output: [saying(text)]
          }
        }
      }
    }
    const agent = new Agent({ name: "worker", model })
    return async () => {
      const result = await run(agent, prompt, { stream: true })
      let count = 0
      let characters = 0
      for await (const delta of result.toTextStream()) {
        count += 1
        characters += delta.length
      }
      await result.completed
      return { deltas: count, characters }
    }
  },
  conversation: async (folder, answer) => {
    const blobs = openBlobs(folder)
    const agent = new Agent({ name: "worker", model: modelOf(() => ({ text: answer })) })
    return {
      say: async (text) => {
        const items = [...parse(blobs.read("conversation")), { role: "user", content: text } as const]
        const result = await run(agent, items)
        blobs.write("conversation", JSON.stringify(result.history))
        return textOf(result)
      },
      close: blobs.close
    }
  },
  inbox: async (folder, script) => {
    const blobs = openBlobs(folder)
    const agent = agentOf(script, turnInHistory)
    let runs = 0
    return {
      hold: async () => blobs.write(numbered("held-", ++runs), await untilHeld(agent, [], script.prompt)),
      list: async (limit) =>
        blobs.list("held-", limit).map((id): Held => ({
          approve: async () => blobs.write(id, (await approved(agent, blobs.read(id))).toString()),
          resume: async () => {
            const result = await run(agent, await RunState.fromString(agent, blobs.read(id) ?? ""), unlimited)
            blobs.write(id.replace("held", "done"), JSON.stringify(result.history))
            blobs.remove(id)
            return textOf(result)
          }
        })),
      close: blobs.close
    }
  }
}
