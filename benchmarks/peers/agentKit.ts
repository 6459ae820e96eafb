/**
 * Inngest's AgentKit: a network of one agent, in memory. Its models are HTTP endpoints only, so the script replaces `fetch`.
 */
import { createAgent, createNetwork, createTool, openai } from "@inngest/agent-kit"
import { z } from "zod"
import type { Adapter, Answer, Script } from "../System.ts"
import { turnByRoles } from "./turns.ts"

interface Message {
  readonly role: string
}

const answers = new Map<string, (messages: ReadonlyArray<Message>) => Promise<Answer>>()
const fetched = globalThis.fetch

globalThis.fetch = async (input, init) => {
  const answer = input instanceof URL ? answers.get(input.hostname) : undefined
  if (answer === undefined) return fetched(input, init)
  const { messages } = JSON.parse(String(init?.body)) as { readonly messages: ReadonlyArray<Message> }
  const { calls = [], text = null } = await answer(messages)
  return Response.json({
    choices: [
      {
        finish_reason: calls.length > 0 ? "tool_calls" : "stop",
        message: {
          role: "assistant",
          content: text,
          tool_calls: calls.map(({ arguments: args, id, name }) => ({
            id,
            type: "function",
            function: { name, arguments: args }
          }))
        }
      }
    ]
  })
}

const roleOf = ({ role }: Message) => (role === "user" || role === "assistant" ? role : "other")

/** The script as a model, at a host that does not exist. */
const modelOf = ({ answer, pause }: Script) => {
  const host = `script-${answers.size + 1}.invalid`
  answers.set(host, async (messages) => {
    await pause?.()
    return answer(turnByRoles(messages, roleOf))
  })
  return openai({ model: "scripted", apiKey: "none", baseUrl: `https://${host}/` })
}

const inMemory = async (script: Script) => {
  const agent = createAgent({
    name: "worker",
    system: "You work.",
    tools: script.tools.map(({ description, name, parameters, run }) =>
      createTool({
        name,
        description,
        parameters: z.object(Object.fromEntries(parameters.map((key) => [key, z.number()]))),
        handler: async (args) => run(args)
      })
    )
  })
  const network = createNetwork({
    name: "network",
    agents: [agent],
    defaultModel: modelOf(script),
    maxIter: 1_000_000,
    // The agent continues until it answers with text.
    router: ({ lastResult }) => (lastResult?.output.at(-1)?.type === "text" ? undefined : agent)
  })
  return async () => {
    const last = (await network.run(script.prompt)).state.results.at(-1)?.output.at(-1)
    if (last?.type !== "text" || typeof last.content !== "string")
      throw new Error("The run has no final text.")
    return last.content
  }
}

const needsServer = "an Inngest server runs and stores its steps; nothing is stored within one process."

export const adapter: Adapter = {
  step: inMemory,
  fanOut: inMemory,
  parallel: inMemory,
  stored: { cannot: needsServer },
  hold: { cannot: "a tool waits for an event of an Inngest server; nothing can be held within one process." },
  stream: { cannot: "it requests the complete answer from its models and splits it into pieces." },
  conversation: {
    cannot: "it leaves the store to the program: a history adapter, which reads and writes whole threads."
  },
  inbox: { cannot: needsServer }
}
