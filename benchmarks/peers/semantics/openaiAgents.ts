/**
 * OpenAI Agents: the run is the text of a `RunState`, which the program writes when `run` returns, as its documentation does.
 */
import { type ModelRequest, run, RunState } from "@openai/agents"
import type { OpenHolding, Outcome } from "../../semantics/Holding.ts"
import { openBlobs } from "../blobs.ts"
import { agentWith } from "../openaiAgents.ts"

const openIn = (input: ModelRequest["input"]): number => {
  if (typeof input === "string") return 0
  let open = 0
  for (const { type } of input)
    open += type === "function_call" ? 1 : type === "function_call_result" ? -1 : 0
  return open
}

export const open: OpenHolding = async (folder, script) => {
  const blobs = openBlobs(folder)
  const agent = agentWith(script.tools, (input) => script.ask(input, openIn(input)))
  const read = () => RunState.fromString(agent, blobs.read("run") ?? "")
  const goOn = async (from: string | Awaited<ReturnType<typeof read>>): Promise<Outcome> => {
    const result = await run(agent, from)
    blobs.write("run", result.state.toString())
    if (result.interruptions.length > 0) return { status: "held" }
    const text = String(result.finalOutput)
    blobs.write("ended", text)
    return { status: "finished", text }
  }
  return {
    start: async () => {
      await goOn(script.prompt)
    },
    waiting: async () =>
      (await read()).getInterruptions().map(({ arguments: args, rawItem }) => ({
        build: (JSON.parse(args ?? "{}") as { readonly build: number }).build,
        handle: "callId" in rawItem ? rawItem.callId : undefined
      })),
    approve: async (these) => {
      const state = await read()
      for (const item of state.getInterruptions()) {
        const { rawItem } = item
        if (these.some(({ handle }) => "callId" in rawItem && rawItem.callId === handle)) state.approve(item)
      }
      return goOn(state)
    },
    say: async (text) => {
      const state = await read()
      state.addInput(text)
      return goOn(state)
    },
    // The last write is from before the approval.
    recover: async () =>
      (await read()).getInterruptions().length > 0 ? { status: "held" } : goOn(await read()),
    ended: async () => blobs.read("ended"),
    close: blobs.close
  }
}
