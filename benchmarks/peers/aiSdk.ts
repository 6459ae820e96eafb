/**
 * AI SDK with `ToolLoopAgent`. Its state is the list of messages, which the program keeps: here as JSON in one row of a table.
 */
import { isStepCount, type LanguageModel, type ModelMessage, tool, ToolLoopAgent } from "ai"
import { z } from "zod"
import type { Adapter, Answer, Held, Script } from "../System.ts"
import { numbered, openBlobs } from "./blobs.ts"
import { turnByRoles } from "./turns.ts"

type Model = Extract<LanguageModel, { readonly specificationVersion: "v4" }>
export type Asked = Parameters<Model["doGenerate"]>[0]["prompt"]
type Generated = Awaited<ReturnType<Model["doGenerate"]>>
type StreamPart =
  Awaited<ReturnType<Model["doStream"]>>["stream"] extends ReadableStream<infer Part> ? Part : never

const usage = {
  inputTokens: { total: 1, noCache: 1, cacheRead: 0, cacheWrite: 0 },
  outputTokens: { total: 1, text: 1, reasoning: 0 }
}

const contentOf = ({ calls = [], text }: Answer): Generated["content"] => [
  ...(text === undefined ? [] : [{ type: "text", text } as const]),
  ...calls.map(
    (call) =>
      ({ type: "tool-call", toolCallId: call.id, toolName: call.name, input: call.arguments }) as const
  )
]

const modelOf = (
  answer: (prompt: Asked) => Answer | Promise<Answer>,
  deltas: ReadonlyArray<string> = []
): Model => ({
  specificationVersion: "v4",
  provider: "scripted",
  modelId: "scripted",
  supportedUrls: {},
  doGenerate: async ({ prompt }) => {
    const answered = await answer(prompt)
    return {
      content: contentOf(answered),
      finishReason: { unified: answered.calls === undefined ? "stop" : "tool-calls", raw: undefined },
      usage,
      warnings: []
    }
  },
  doStream: async () => {
    let at = 0
    return {
      stream: new ReadableStream<StreamPart>({
        start: (controller) => {
          controller.enqueue({ type: "stream-start", warnings: [] })
          controller.enqueue({ type: "text-start", id: "text" })
        },
        pull: (controller) => {
          const delta = deltas[at++]
          if (delta !== undefined) return controller.enqueue({ type: "text-delta", id: "text", delta })
          controller.enqueue({ type: "text-end", id: "text" })
          controller.enqueue({ type: "finish", finishReason: { unified: "stop", raw: undefined }, usage })
          controller.close()
        }
      })
    }
  }
})

/** Each turn adds the answer, and one message with all results. */
const turnInMemory = (prompt: Asked): number => (prompt.length + 1) / 2

const turnInHistory = (prompt: Asked): number =>
  turnByRoles(prompt, ({ role }) => (role === "user" || role === "assistant" ? role : "other"))

/** Gated tools need approval. */
export const agentWith = (
  tools: Script["tools"],
  answer: (prompt: Asked) => Answer | Promise<Answer>,
  onStep?: (messages: Array<ModelMessage>) => void
) =>
  new ToolLoopAgent({
    model: modelOf(answer),
    tools: Object.fromEntries(
      tools.map(({ description, name, parameters, run }) => [
        name,
        tool({
          description,
          inputSchema: z.object(Object.fromEntries(parameters.map((key) => [key, z.number()]))),
          execute: (args) => run(args)
        })
      ])
    ),
    toolApproval: Object.fromEntries(
      tools.filter(({ gated }) => gated).map(({ name }) => [name, "user-approval" as const])
    ),
    stopWhen: isStepCount(1_000_000),
    telemetry: { isEnabled: false },
    ...(onStep === undefined
      ? {}
      : {
          prepareStep: ({ messages }: { readonly messages: Array<ModelMessage> }) => {
            onStep(messages)
            return {}
          }
        })
  })

const agentOf = (
  { answer, pause, tools }: Script,
  turnOf: (prompt: Asked) => number,
  onStep?: (messages: Array<ModelMessage>) => void
) =>
  agentWith(
    tools,
    async (prompt) => {
      if (pause !== undefined) await pause()
      return answer(turnOf(prompt))
    },
    onStep
  )

const inMemory = async (script: Script) => {
  const agent = agentOf(script, turnInMemory)
  return async () => (await agent.generate({ prompt: script.prompt })).text
}

const parse = (text: string | undefined): Array<ModelMessage> =>
  text === undefined ? [] : (JSON.parse(text) as Array<ModelMessage>)

type Agent = ReturnType<typeof agentOf>

/** Runs until a call needs approval; returns all messages. */
const untilHeld = async (
  agent: Agent,
  history: ReadonlyArray<ModelMessage>,
  prompt: string
): Promise<ReadonlyArray<ModelMessage>> => {
  const messages = [...history, { role: "user", content: prompt } as const]
  const result = await agent.generate({ messages })
  if (result.content.every(({ type }) => type !== "tool-approval-request"))
    throw new Error("The run was not held.")
  return [...messages, ...result.response.messages]
}

/** The messages with an approval of the last message's requests. */
const approved = (messages: ReadonlyArray<ModelMessage>): Array<ModelMessage> => {
  const last = messages.at(-1)
  if (last?.role !== "assistant" || typeof last.content === "string") throw new Error("Nothing is held.")
  const asked = last.content.filter((part) => part.type === "tool-approval-request")
  return [
    ...messages,
    {
      role: "tool",
      content: asked.map(
        ({ approvalId }) => ({ type: "tool-approval-response", approvalId, approved: true }) as const
      )
    }
  ]
}

export const adapter: Adapter = {
  step: inMemory,
  fanOut: inMemory,
  parallel: inMemory,
  stored: async (folder, script) => {
    const blobs = openBlobs(folder)
    let runs = 0
    return {
      run: async () => {
        const id = numbered("run-", ++runs)
        const save = (messages: ReadonlyArray<ModelMessage>) => blobs.write(id, JSON.stringify(messages))
        const agent = agentOf(script, turnInMemory, save)
        const result = await agent.generate({ prompt: script.prompt })
        save([{ role: "user", content: script.prompt }, ...result.response.messages])
        return result.text
      },
      close: blobs.close
    }
  },
  hold: {
    prepare: async (folder, history) => {
      const blobs = openBlobs(folder)
      const messages = history.map(({ role, text }) => ({ role, content: text }))
      blobs.write("conversation", JSON.stringify(messages))
      await blobs.close()
    },
    open: async (folder, script) => {
      const blobs = openBlobs(folder)
      const agent = agentOf(script, turnInHistory)
      return {
        start: async () => {
          const messages = await untilHeld(agent, parse(blobs.read("conversation")), script.prompt)
          blobs.write("conversation", JSON.stringify(messages))
        },
        finish: async () => {
          const messages = approved(parse(blobs.read("conversation")))
          const result = await agent.generate({ messages })
          blobs.write("conversation", JSON.stringify([...messages, ...result.response.messages]))
          return result.text
        },
        close: blobs.close
      }
    }
  },
  stream: async ({ deltas, prompt }) => {
    const agent = new ToolLoopAgent({
      model: modelOf(() => ({}), deltas),
      telemetry: { isEnabled: false }
    })
    return async () => {
      const { textStream } = await agent.stream({ prompt })
      let count = 0
      let characters = 0
      for await (const delta of textStream) {
        count += 1
        characters += delta.length
      }
      return { deltas: count, characters }
    }
  },
  conversation: async (folder, answer) => {
    const blobs = openBlobs(folder)
    const agent = new ToolLoopAgent({
      model: modelOf(() => ({ text: answer })),
      telemetry: { isEnabled: false }
    })
    return {
      say: async (text) => {
        const messages = [...parse(blobs.read("conversation")), { role: "user", content: text } as const]
        const result = await agent.generate({ messages })
        blobs.write("conversation", JSON.stringify([...messages, ...result.response.messages]))
        return result.text
      },
      close: blobs.close
    }
  },
  inbox: async (folder, script) => {
    const blobs = openBlobs(folder)
    const agent = agentOf(script, turnInHistory)
    let runs = 0
    return {
      hold: async () =>
        blobs.write(numbered("held-", ++runs), JSON.stringify(await untilHeld(agent, [], script.prompt))),
      list: async (limit) =>
        blobs.list("held-", limit).map((id): Held => ({
          approve: async () => blobs.write(id, JSON.stringify(approved(parse(blobs.read(id))))),
          resume: async () => {
            const messages = parse(blobs.read(id))
            const result = await agent.generate({ messages })
            blobs.write(
              id.replace("held", "done"),
              JSON.stringify([...messages, ...result.response.messages])
            )
            blobs.remove(id)
            return result.text
          }
        })),
      close: blobs.close
    }
  }
}
