/**
 * @title Tools: schemas, safety, progress
 *
 * A tool describes its arguments by an Effect Schema or by any Standard Schema, such as zod. Read-only tools run concurrently; every
 * other tool is assumed to have side effects and needs approval. The model receives an error result for an invalid call, so that it
 * can correct itself. The model is scripted.
 */
import assert from "node:assert/strict"
import { agent, createFermata, Schema, tool } from "@fermata/node"
import { ScriptedModel } from "@fermata/node/testing"
import * as z from "zod"

export const main = async () => {
  let atWork = 0
  let mostAtWork = 0
  const temperature = tool("temperature", {
    description: "The temperature in a city, in degrees Celsius",
    safety: "readOnly",
    parameters: Schema.Struct({ city: Schema.String }),
    handler: async ({ city }, { progress }) => {
      mostAtWork = Math.max(mostAtWork, ++atWork)
      progress(`reading the thermometer of ${city}`)
      await new Promise((resolve) => setTimeout(resolve, 20))
      atWork -= 1
      return { city, celsius: city === "Turku" ? -3 : 14 }
    }
  })
  const mean = tool("mean", {
    safety: "readOnly",
    parameters: z.object({ values: z.array(z.number()).min(1) }),
    handler: ({ values }) => String(values.reduce((sum, value) => sum + value, 0) / values.length)
  })

  const model = ScriptedModel.make([
    {
      calls: [
        { tool: "temperature", arguments: { city: "Turku" } },
        { tool: "temperature", arguments: { city: "Porto" } }
      ]
    },
    { calls: [{ tool: "mean", arguments: { values: "-3 and 14" } }] },
    { calls: [{ tool: "mean", arguments: { values: [-3, 14] } }] },
    "On average it is 5.5 degrees."
  ])
  await using fermata = await createFermata({
    agents: [agent("weather", { tools: [temperature, mean] })],
    model: model.client
  })
  const progress: Array<string> = []
  const run = await fermata.runPrompt("weather", "How warm is it in Turku and Porto, on average?", {
    onUpdate: (update) => {
      if (update._tag === "progress") progress.push(update.message)
    }
  })

  assert(run.status === "completed")
  assert.deepEqual(progress, ["reading the thermometer of Turku", "reading the thermometer of Porto"])
  assert.equal(mostAtWork, 2)
  // The model's second call of `mean` corrects the first.
  const results = model.requests
    .at(-1)
    ?.messages.flatMap((message) => (message.role === "tool" ? [message] : []))
  assert.deepEqual(
    results?.map(({ name, outcome }) => `${name} ${outcome}`),
    ["temperature completed", "temperature completed", "mean failed", "mean completed"]
  )
  for (const { content } of results ?? []) console.log(content)
  console.log(run.text)
}

if (import.meta.main) await main()
