/**
 * @title A real model: live with OPENAI_API_KEY, otherwise a recording over a real socket
 *
 * `OPENAI_API_KEY=… OPENAI_BASE_URL=… FERMATA_MODEL=gpt-5.5 npm run examples -- 60` calls any server that speaks
 * `/chat/completions`. The run is held before the tool runs, and continues the same conversation after the decision. Without a key it
 * replays recordings that are fixtures of this repository; elsewhere, pass a key and leave the replay server out.
 */
import assert from "node:assert/strict"
import * as Path from "node:path"
import { agent, approve, createFermata, openAiCompatible, Schema, tool } from "@fermata/node"
import { ReplayServer } from "@fermata/node/testing"

const capital = tool("get_capital", {
  description: "Looks up the capital of a country",
  parameters: Schema.Struct({ country: Schema.String }),
  needsApproval: true,
  handler: ({ country }) => (/uk|united kingdom|britain/i.test(country) ? "London" : "unknown")
})
const guide = agent("guide", { instructions: "Use the tool, then answer.", tools: [capital] })

const recordings = Path.join(import.meta.dirname, "../packages/sdk/test/fixtures/models/chat")

export const main = async () => {
  const { FERMATA_MODEL = "gpt-4o-mini", OPENAI_API_KEY, OPENAI_BASE_URL } = process.env
  const turns = ["openai-tool-call", "openai-text"].map((name) =>
    ReplayServer.recorded(Path.join(recordings, name), { chunking: 1 })
  )
  await using server = await ReplayServer.start(await Promise.all(turns))
  const live = OPENAI_API_KEY !== undefined && OPENAI_API_KEY !== ""
  const model = openAiCompatible({
    model: FERMATA_MODEL,
    ...(live ? {} : { apiKey: "none", baseUrl: `${server.url}/v1` }),
    ...(live && OPENAI_BASE_URL !== undefined ? { baseUrl: OPENAI_BASE_URL } : {})
  })

  await using fermata = await createFermata({ agents: [guide], model })
  const held = await fermata.runPrompt("guide", "What is the capital of the UK?", {
    onUpdate: (update) => {
      if (update._tag === "retry") console.log(`${update.reason}, trying again in ${update.waitMs} ms`)
    }
  })
  assert(held.status === "interrupted", held.status)
  for (const asked of await fermata.pending({ runId: held.runId })) {
    if (asked.request._tag !== "approval") continue
    console.log(`May ${asked.request.tool} run with ${JSON.stringify(asked.request.arguments)}?`)
    await fermata.decide(asked, approve(), { by: "ana" })
  }

  const done = await fermata.resume(held.runId)
  assert(done.status === "completed", done.status)
  assert.match(done.text, /London/)
  console.log(done.text)
  const { inputTokens, outputTokens } = done.usage
  console.log(`${inputTokens} tokens in, ${outputTokens} out`)
  if (!live) assert.deepEqual({ inputTokens, outputTokens }, { inputTokens: 131, outputTokens: 24 })
}

if (import.meta.main) await main()
