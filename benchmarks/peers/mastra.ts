/**
 * Mastra's `Agent`, with its libSQL store; a conversation is one of its memory's threads.
 */
import * as Path from "node:path"
import { Mastra } from "@mastra/core"
import { Agent, type AgentConfig } from "@mastra/core/agent"
import { createDurableAgent } from "@mastra/core/agent/durable"
import { createTool } from "@mastra/core/tools"
import { LibSQLStore } from "@mastra/libsql"
import { Memory } from "@mastra/memory"
import { z } from "zod"
import type { Adapter, Answer, Held, Script } from "../System.ts"
import { turnByRoles } from "./turns.ts"

type Model = Extract<AgentConfig["model"], { readonly specificationVersion: "v3" }>
export type Asked = Parameters<Model["doStream"]>[0]["prompt"]
type StreamPart =
  Awaited<ReturnType<Model["doStream"]>>["stream"] extends ReadableStream<infer Part> ? Part : never

const usage = {
  inputTokens: { total: 1, noCache: 1, cacheRead: 0, cacheWrite: 0 },
  outputTokens: { total: 1, text: 1, reasoning: 0 }
}

const partsOf = function* (
  { calls = [], text }: Answer,
  deltas = text === undefined ? [] : [text]
): Generator<StreamPart> {
  yield { type: "stream-start", warnings: [] }
  if (deltas.length > 0) {
    yield { type: "text-start", id: "text" }
    for (const delta of deltas) yield { type: "text-delta", id: "text", delta }
    yield { type: "text-end", id: "text" }
  }
  for (const call of calls)
    yield { type: "tool-call", toolCallId: call.id, toolName: call.name, input: call.arguments }
  const unified = calls.length > 0 ? "tool-calls" : "stop"
  yield { type: "finish", finishReason: { unified, raw: unified }, usage }
}

export const modelOf = (
  answer: (prompt: Asked) => Answer | Promise<Answer>,
  deltas?: ReadonlyArray<string>
): Model => ({
  specificationVersion: "v3",
  provider: "scripted",
  modelId: "scripted",
  supportedUrls: {},
  doGenerate: async ({ prompt }) => {
    const { calls = [], text } = await answer(prompt)
    const unified = calls.length > 0 ? "tool-calls" : "stop"
    return {
      content: [
        ...(text === undefined ? [] : [{ type: "text", text } as const]),
        ...calls.map(
          (call) =>
            ({
              type: "tool-call",
              toolCallId: call.id,
              toolName: call.name,
              input: call.arguments
            }) as const
        )
      ],
      finishReason: { unified, raw: unified },
      usage,
      warnings: []
    }
  },
  doStream: async ({ prompt }) => ({
    stream: ReadableStream.from(partsOf(await answer(prompt), deltas === undefined ? undefined : [...deltas]))
  })
})

const roleOf = ({ role }: Asked[number]) => (role === "user" || role === "assistant" ? role : "other")

/** The script as a model. */
export const scripted = ({ answer, pause }: Script): Model =>
  modelOf(async (prompt) => {
    await pause?.()
    return answer(turnByRoles(prompt, roleOf))
  })

/** Gated tools need approval. Without a store the agent works in memory. */
export const agentOf = ({ tools }: Pick<Script, "tools">, model: Model, memory?: Memory): Agent =>
  new Agent({
    id: "worker",
    name: "worker",
    instructions: "",
    model,
    tools: Object.fromEntries(
      tools.map(({ description, gated, name, parameters, run }) => [
        name,
        createTool({
          id: name,
          description,
          inputSchema: z.object(Object.fromEntries(parameters.map((key) => [key, z.number()]))),
          requireApproval: gated,
          execute: async (args) => run(args)
        })
      ])
    ),
    ...(memory === undefined ? {} : { memory })
  })

/** A store with its default settings, except that it is as durable as those of the others. */
export const storeIn = async (folder: string): Promise<LibSQLStore> => {
  const store = new LibSQLStore({ id: "store", url: `file:${Path.join(folder, "mastra.db")}` })
  await store.init()
  // Mastra sets NORMAL when the store is made, and has no option for it.
  const { client } = store as unknown as {
    readonly client: { readonly execute: (sql: string) => Promise<unknown> }
  }
  await client.execute("PRAGMA synchronous = FULL")
  return store
}

/** No limit of steps. */
const steps = { maxSteps: 1_000_000 }

interface Output {
  readonly text: string
  readonly finishReason?: string | undefined
  readonly error?: Error | undefined
}

const finished = ({ error, finishReason, text }: Output): string => {
  if (error !== undefined) throw error
  if (finishReason !== "stop") throw new Error(`The run ended as ${finishReason}.`)
  return text
}

const suspended = ({ error, finishReason }: Output): void => {
  if (error !== undefined) throw error
  if (finishReason !== "suspended") throw new Error(`The run ended as ${finishReason}, not held.`)
}

const inMemory = async (script: Script) => {
  const agent = agentOf(script, scripted(script))
  return async () => finished(await agent.generate(script.prompt, steps))
}

/** An agent with a store; `thread` is the thread of its memory, if it has one. */
export const opened = async (folder: string, tools: Script["tools"], model: Model, remembers = false) => {
  const storage = await storeIn(folder)
  const memory = remembers ? new Memory({ storage, options: { lastMessages: 1_000_000 } }) : undefined
  const mastra = new Mastra({ storage, agents: { worker: agentOf({ tools }, model, memory) }, logger: false })
  return { agent: mastra.getAgent("worker"), memory, close: () => storage.close() }
}

const thread = { thread: "conversation", resource: "user" }

const silent = modelOf(() => ({}))

export const adapter: Adapter = {
  step: inMemory,
  fanOut: inMemory,
  parallel: inMemory,
  stored: async (folder, script) => {
    const storage = await storeIn(folder)
    const agent = createDurableAgent({
      agent: agentOf(script, scripted(script)),
      maxSteps: steps.maxSteps,
      cache: false
    })
    // Gives the agent its store. Without `recovery` only suspended runs are stored.
    new Mastra({ storage, agents: { worker: agent }, logger: false, recovery: { durableAgents: "auto" } })
    return {
      run: async () => {
        const { cleanup, output } = await agent.stream(script.prompt, steps)
        const text = await output.text
        cleanup()
        return text
      },
      close: () => storage.close()
    }
  },
  hold: {
    prepare: async (folder, history) => {
      const { close, memory } = await opened(folder, [], silent, true)
      await memory!.createThread({ threadId: thread.thread, resourceId: thread.resource })
      const begin = Date.now() - history.length
      await memory!.saveMessages({
        messages: history.map(({ role, text }, at) => ({
          id: `past-${at}`,
          role,
          createdAt: new Date(begin + at),
          threadId: thread.thread,
          resourceId: thread.resource,
          content: { format: 2, parts: [{ type: "text", text }] }
        }))
      })
      await close()
    },
    open: async (folder, script) => {
      const { agent, close } = await opened(folder, script.tools, scripted(script), true)
      return {
        start: async () => suspended(await agent.generate(script.prompt, { ...steps, memory: thread })),
        finish: async () => {
          const [run] = (
            await agent.listSuspendedRuns({ threadId: thread.thread, resourceId: thread.resource })
          ).runs
          if (run === undefined) throw new Error("Nothing is held.")
          const { runId, toolCalls } = run
          return finished(
            await agent.approveToolCallGenerate({
              ...steps,
              memory: thread,
              runId,
              toolCallId: toolCalls[0]!.toolCallId!
            })
          )
        },
        close
      }
    }
  },
  stream: async ({ deltas, prompt }) => {
    const agent = agentOf(
      { tools: [] },
      modelOf(() => ({}), deltas)
    )
    return async () => {
      let count = 0
      let characters = 0
      for await (const delta of (await agent.stream(prompt)).textStream) {
        count += 1
        characters += delta.length
      }
      return { deltas: count, characters }
    }
  },
  conversation: async (folder, answer) => {
    const { agent, close } = await opened(
      folder,
      [],
      modelOf(() => ({ text: answer })),
      true
    )
    return { say: async (text) => finished(await agent.generate(text, { memory: thread })), close }
  },
  inbox: async (folder, script) => {
    const { agent, close } = await opened(folder, script.tools, scripted(script))
    return {
      hold: async () => suspended(await agent.generate(script.prompt, steps)),
      list: async (limit) =>
        (await agent.listSuspendedRuns({ perPage: limit, page: 0 })).runs.map(
          ({ runId, toolCalls }): Held => ({
            // Approves and continues in one call; nothing is stored in between.
            approve: async () => {},
            resume: async () =>
              finished(
                await agent.approveToolCallGenerate({
                  ...steps,
                  runId,
                  toolCallId: toolCalls[0]!.toolCallId!
                })
              )
          })
        ),
      close
    }
  }
}
