/**
 * AI SDK: the run is the list of messages, which the program writes when a call of the agent returns, as its documentation does.
 */
import type { ModelMessage } from "ai"
import type { OpenHolding, Outcome, Waiting } from "../../semantics/Holding.ts"
import { agentWith, type Asked } from "../aiSdk.ts"
import { openBlobs } from "../blobs.ts"

const openIn = (prompt: Asked): number => {
  let open = 0
  for (const { content, role } of prompt) {
    if (typeof content === "string" || role === "user") continue
    for (const { type } of content) open += type === "tool-call" ? 1 : type === "tool-result" ? -1 : 0
  }
  return open
}

const partsOf = ({ content, role }: ModelMessage) =>
  typeof content === "string" || role === "user" || role === "system" ? [] : content

const waitingIn = (messages: ReadonlyArray<ModelMessage>): ReadonlyArray<Waiting> => {
  const parts = messages.flatMap((message): ReadonlyArray<ReturnType<typeof partsOf>[number]> =>
    partsOf(message)
  )
  const builds = new Map(
    parts.flatMap((part) =>
      part.type === "tool-call" ? [[part.toolCallId, (part.input as { readonly build: number }).build]] : []
    )
  )
  const answered = new Set(
    parts.flatMap((part) => (part.type === "tool-approval-response" ? [part.approvalId] : []))
  )
  return parts.flatMap((part) =>
    part.type === "tool-approval-request" && !answered.has(part.approvalId)
      ? [{ build: builds.get(part.toolCallId)!, handle: part.approvalId }]
      : []
  )
}

export const open: OpenHolding = async (folder, script) => {
  const blobs = openBlobs(folder)
  const agent = agentWith(script.tools, (prompt) => script.ask(prompt, openIn(prompt)))
  const read = () => JSON.parse(blobs.read("run") ?? "[]") as Array<ModelMessage>
  const outcome = (): Outcome => {
    const messages = read()
    const last = messages.at(-1)
    if (waitingIn(messages).length > 0 || last?.role !== "assistant") return { status: "held" }
    const { content } = last
    const text =
      typeof content === "string"
        ? content
        : content.flatMap((part) => (part.type === "text" ? [part.text] : [])).join("")
    return { status: "finished", text }
  }
  const goOn = async (messages: Array<ModelMessage>): Promise<Outcome> => {
    const { response } = await agent.generate({ messages })
    blobs.write("run", JSON.stringify([...messages, ...response.messages]))
    return outcome()
  }
  return {
    start: async () => {
      await goOn([{ role: "user", content: script.prompt }])
    },
    waiting: async () => waitingIn(read()),
    approve: (these) =>
      goOn([
        ...read(),
        {
          role: "tool",
          content: these.map(({ handle }) => ({
            type: "tool-approval-response",
            approvalId: handle as string,
            approved: true
          }))
        }
      ]),
    say: (text) => goOn([...read(), { role: "user", content: text }]),
    recover: async () => outcome(),
    ended: async () => {
      const { status, text } = outcome()
      return status === "finished" ? text : undefined
    },
    close: blobs.close
  }
}
