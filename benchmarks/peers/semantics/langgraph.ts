/**
 * LangGraph: the run is a thread. All decisions about a turn are one list, in the order of the calls.
 */
import { type AIMessage, type BaseMessage, isAIMessage, isToolMessage } from "@langchain/core/messages"
import { Command } from "@langchain/langgraph"
import type { OpenHolding, Outcome, Waiting } from "../../semantics/Holding.ts"
import { agentOf, Scripted, storeIn } from "../langgraph.ts"

const thread = { configurable: { thread_id: "run" }, durability: "sync" as const }

const openIn = (messages: ReadonlyArray<BaseMessage>): number => {
  const results = new Set(messages.filter(isToolMessage).map((message) => message.tool_call_id))
  return messages
    .filter((message): message is AIMessage => isAIMessage(message))
    .flatMap(({ tool_calls = [] }) => tool_calls)
    .filter(({ id }) => !results.has(id!)).length
}

interface Asked {
  readonly actionRequests: ReadonlyArray<{ readonly args: { readonly build: number } }>
}

export const open: OpenHolding = async (folder, script) => {
  const saver = storeIn(folder)
  const agent = agentOf(script, new Scripted((messages) => script.ask(messages, openIn(messages))), saver)
  const state = () => agent.graph.getState(thread)
  const outcome = async (): Promise<Outcome> => {
    const { next, values } = await state()
    if (next.length > 0) return { status: "held" }
    const { messages } = values as { readonly messages: ReadonlyArray<BaseMessage> }
    return { status: "finished", text: String(messages.at(-1)?.content) }
  }
  const waiting = async (): Promise<ReadonlyArray<Waiting>> =>
    (await state()).tasks
      .flatMap(({ interrupts }) => interrupts)
      .flatMap(({ value }) => (value as Asked).actionRequests)
      .map(({ args }) => ({ build: args.build, handle: undefined }))
  return {
    start: async () => {
      await agent.invoke({ messages: [{ role: "user", content: script.prompt }] }, thread)
    },
    waiting,
    approve: async (these) => {
      // There is no id: a decision belongs to the call at its place in the list.
      const decisions = these.map(() => ({ type: "approve" as const }))
      await agent.invoke(new Command({ resume: { decisions } }), thread)
      return outcome()
    },
    say: async (text) => {
      await agent.invoke({ messages: [{ role: "user", content: text }] }, thread)
      return outcome()
    },
    recover: async () => {
      if ((await waiting()).length > 0) return { status: "held" }
      await agent.invoke(null, thread)
      return outcome()
    },
    ended: async () => {
      const { status, text } = await outcome()
      return status === "finished" ? text : undefined
    },
    close: async () => void saver.db.close()
  }
}
