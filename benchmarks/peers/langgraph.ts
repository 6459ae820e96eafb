/**
 * LangGraph with `createAgent` of `langchain`, its SQLite saver and its middleware for approvals.
 */
import * as Path from "node:path"
import type { CallbackManagerForLLMRun } from "@langchain/core/callbacks/manager"
import { BaseChatModel, type BaseChatModelCallOptions } from "@langchain/core/language_models/chat_models"
import { AIMessage, AIMessageChunk, type BaseMessage } from "@langchain/core/messages"
import { ChatGenerationChunk, type ChatResult } from "@langchain/core/outputs"
import { Command, type MemorySaver } from "@langchain/langgraph"
import { SqliteSaver } from "@langchain/langgraph-checkpoint-sqlite"
import { createAgent, humanInTheLoopMiddleware, tool } from "langchain"
import { z } from "zod"
import type { Adapter, Answer, Script, StreamScript } from "../System.ts"
import { turnByLength, turnByRoles } from "./turns.ts"

const messageOf = ({ calls = [], text = "" }: Answer): AIMessage =>
  new AIMessage({
    content: text,
    tool_calls: calls.map((call) => ({
      type: "tool_call",
      id: call.id,
      name: call.name,
      args: JSON.parse(call.arguments) as Record<string, unknown>
    }))
  })

/** A scripted model. */
export class Scripted extends BaseChatModel<BaseChatModelCallOptions, AIMessageChunk> {
  readonly say: (messages: ReadonlyArray<BaseMessage>) => Answer | Promise<Answer>
  readonly deltas: ReadonlyArray<string>

  constructor(
    say: (messages: ReadonlyArray<BaseMessage>) => Answer | Promise<Answer>,
    deltas: ReadonlyArray<string> = []
  ) {
    super({})
    this.say = say
    this.deltas = deltas
  }

  override _llmType(): string {
    return "scripted"
  }

  override bindTools(): this {
    return this
  }

  override async _generate(messages: Array<BaseMessage>): Promise<ChatResult> {
    const answer = await this.say(messages)
    return { generations: [{ text: answer.text ?? "", message: messageOf(answer) }] }
  }

  override async *_streamResponseChunks(
    _messages: Array<BaseMessage>,
    _options: BaseChatModelCallOptions,
    manager?: CallbackManagerForLLMRun
  ): AsyncGenerator<ChatGenerationChunk> {
    for (const delta of this.deltas) {
      const chunk = new ChatGenerationChunk({ text: delta, message: new AIMessageChunk(delta) })
      yield chunk
      await manager?.handleLLMNewToken(delta, undefined, undefined, undefined, undefined, { chunk })
    }
  }
}

const roleOf = (message: BaseMessage) =>
  message.getType() === "human" ? "user" : message.getType() === "ai" ? "assistant" : "other"

/** The script as a model. It finds the turn by the length of the history, or by the roles when there was an earlier conversation. */
const scripted = (script: Script, conversation = false): Scripted => {
  const turnOf = turnByLength(script)
  const { answer, pause } = script
  const say = (messages: ReadonlyArray<BaseMessage>) =>
    answer(conversation ? turnByRoles(messages, roleOf) : turnOf(messages.length))
  return new Scripted(
    pause === undefined
      ? say
      : async (messages) => {
          await pause()
          return say(messages)
        }
  )
}

/** The agent of a script. LangChain's own middleware approves gated calls. */
export const agentOf = (
  { tools }: Pick<Script, "tools">,
  model: BaseChatModel,
  checkpointer?: SqliteSaver | MemorySaver
) =>
  createAgent({
    model,
    tools: tools.map(({ description, name, parameters, run }) =>
      tool((args: Record<string, number>) => run(args), {
        name,
        description,
        schema: z.object(Object.fromEntries(parameters.map((key) => [key, z.number()])))
      })
    ),
    middleware: tools.some(({ gated }) => gated)
      ? [
          humanInTheLoopMiddleware({
            interruptOn: Object.fromEntries(
              tools
                .filter(({ gated }) => gated)
                .map(({ name }) => [name, { allowedDecisions: ["approve" as const] }])
            )
          })
        ]
      : [],
    ...(checkpointer === undefined ? {} : { checkpointer })
  })

/** The store, as durable as those of the others. */
export const storeIn = (folder: string): SqliteSaver => {
  const saver = SqliteSaver.fromConnString(Path.join(folder, "langgraph.db"))
  saver.db.pragma("journal_mode = WAL")
  saver.db.pragma("synchronous = FULL")
  saver.db.pragma("busy_timeout = 5000")
  return saver
}

/** One step is on disk before the next begins. */
const thread = (id: string) => ({
  configurable: { thread_id: id },
  durability: "sync" as const,
  recursionLimit: 1_000_000
})

const textOf = ({ messages }: { readonly messages: ReadonlyArray<BaseMessage> }): string =>
  String(messages.at(-1)?.content)

const user = (content: string) => ({ messages: [{ role: "user" as const, content }] })

const inMemory = async (script: Script) => {
  const agent = agentOf(script, scripted(script))
  return async () => textOf(await agent.invoke(user(script.prompt), { recursionLimit: 1_000_000 }))
}

const conversation = thread("conversation")

/** The requests that the agent waits for. */
const waiting = (state: { readonly tasks: ReadonlyArray<{ readonly interrupts: ReadonlyArray<unknown> }> }) =>
  state.tasks.flatMap(({ interrupts }) => interrupts)

export const adapter: Adapter = {
  step: inMemory,
  fanOut: inMemory,
  parallel: inMemory,
  stored: async (folder, script) => {
    const saver = storeIn(folder)
    const agent = agentOf(script, scripted(script), saver)
    let runs = 0
    return {
      run: async () => textOf(await agent.invoke(user(script.prompt), thread(`run-${++runs}`))),
      close: async () => void saver.db.close()
    }
  },
  hold: {
    prepare: async (folder, history) => {
      const saver = storeIn(folder)
      const agent = agentOf({ tools: [] }, scripted({ prompt: "", tools: [], answer: () => ({}) }), saver)
      await agent.graph.updateState(conversation, {
        messages: history.map(({ role, text }) => ({ role, content: text }))
      })
      saver.db.close()
    },
    open: async (folder, script) => {
      const saver = storeIn(folder)
      const agent = agentOf(script, scripted(script, true), saver)
      return {
        start: async () => {
          const result = await agent.invoke(user(script.prompt), conversation)
          if (!("__interrupt__" in result)) throw new Error("The run is not held.")
        },
        finish: async () => {
          if (waiting(await agent.graph.getState(conversation)).length === 0)
            throw new Error("Nothing is held.")
          const resume = new Command({ resume: { decisions: [{ type: "approve" }] } })
          return textOf(await agent.invoke(resume, conversation))
        },
        close: async () => void saver.db.close()
      }
    }
  },
  stream: async ({ deltas, prompt }: StreamScript) => {
    const model = new Scripted(() => ({ text: deltas.join("") }), deltas)
    const agent = createAgent({ model, tools: [] })
    return async () => {
      let count = 0
      let characters = 0
      for await (const [message] of await agent.stream(user(prompt), { streamMode: "messages" })) {
        const { content } = message
        if (typeof content !== "string" || content === "") continue
        count += 1
        characters += content.length
      }
      return { deltas: count, characters }
    }
  },
  conversation: async (folder, answer) => {
    const saver = storeIn(folder)
    const agent = agentOf({ tools: [] }, new Scripted(() => ({ text: answer })), saver)
    return {
      say: async (text) => textOf(await agent.invoke(user(text), conversation)),
      close: async () => void saver.db.close()
    }
  },
  inbox: {
    cannot: "it lists the checkpoints of a thread, not held threads: the program must keep its own list."
  }
}
