/**
 * @title Structured output
 *
 * An agent with an `output` schema answers with data. The schema decodes the model's answer. If it does not match, the model receives
 * the error and answers again, within the run's turn budget. The model is scripted.
 */
import assert from "node:assert/strict"
import { agent, createFermata, Schema } from "@fermata/node"
import { ScriptedModel } from "@fermata/node/testing"
import * as z from "zod"

const Invoice = Schema.Struct({
  number: Schema.String,
  due: Schema.DateTimeUtcFromString,
  lines: Schema.NonEmptyArray(Schema.Struct({ what: Schema.String, euros: Schema.Finite }))
})

export const main = async () => {
  const reader = agent("reader", { instructions: "Read the invoice.", output: Invoice })
  const mood = agent("mood", { output: z.object({ mood: z.enum(["glad", "cross"]) }) })
  const model = ScriptedModel.make([
    '{ "number": "2026-114", "due": "2026-12-01T00:00:00Z", "lines": [{ "what": "Piano tuning", "euros": "90" }] }',
    '{ "number": "2026-114", "due": "2026-12-01T00:00:00Z", "lines": [{ "what": "Piano tuning", "euros": 90 }] }',
    '```json\n{ "mood": "glad" }\n```'
  ])
  await using fermata = await createFermata({ agents: [reader, mood], model: model.client })

  // If the agent itself is passed instead of its name, the result has the schema's type.
  const run = await fermata.runPrompt(reader, "Invoice 2026-114, due December 1st: piano tuning, 90 euros.")
  assert(run.status === "completed")
  const { due, lines, number } = run.output
  assert.equal(number, "2026-114")
  assert.equal(due.epochMilliseconds, Date.UTC(2026, 11, 1))
  assert.equal(lines[0].euros, 90)
  assert.equal(run.usage.turns, 2)

  // The error that the model received for its first answer.
  const correction = model.requests[1]?.messages.at(-1)
  assert(correction?.role === "user" && correction.origin === "runtime")
  console.log(correction.content)
  console.log(run.output)

  const other = await fermata.runPrompt(mood, "Such a clear tone!")
  assert(other.status === "completed")
  assert.equal(other.output.mood, "glad")
}

if (import.meta.main) await main()
