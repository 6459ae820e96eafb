import * as Fs from "node:fs"
import { agent, createFermata } from "@fermata/node"
import type { ModelClient, ModelPart } from "@fermata/sdk/model"
import * as Effect from "effect/Effect"
import * as Stream from "effect/Stream"
/**
 * Measures what a control plane costs: the deltas per second that reach one subscriber, the cost of a delta over the bare run, and the
 * memory and the delay that a subscriber causes which reads nothing.
 *
 * `node --expose-gc --conditions=@fermata/source benchmarks/events.ts` takes half a minute. `--deltas 100000` measures fewer. It prints a row
 * for each measurement, and ends with 1 if a limit is exceeded.
 */
// The repository's own scripts, not the packages that are measured.
// oxlint-disable-next-line no-restricted-imports
import { readOptions } from "../scripts/internal/help.ts"

const { values } = readOptions({
  options: {
    deltas: { type: "string", default: "1000000" },
    rounds: { type: "string", default: "3" },
    json: { type: "string" }
  }
})
const deltas = Number(values.deltas)
const rounds = Number(values.rounds)

/** A model that streams deltas of four characters, a chunk of 256 at a time. */
const usage = { inputTokens: 1, outputTokens: 1 }
const finish: ModelPart.ModelPart = { _tag: "finish", finishReason: "stop", usage }
const chunk: ReadonlyArray<ModelPart.ModelPart> = Array.from({ length: 256 }, () => ({
  _tag: "text-delta",
  delta: "abc "
}))
const model: ModelClient.ModelClient["Service"] = {
  stream: () =>
    Stream.concat(
      Stream.flatMap(Stream.range(1, Math.ceil(deltas / 256)), () => Stream.fromIterable(chunk)),
      Stream.succeed(finish)
    ),
  complete: () => Effect.die("not used")
}

const open = () => createFermata({ agents: [agent("writer")], model, store: false })

/** Milliseconds of processor time, so that other programs of the machine do not count. */
const clock = (): number => {
  const { system, user } = process.cpuUsage()
  return (system + user) / 1000
}

/** The milliseconds of a run whose updates a callback receives. */
const bare = async () => {
  await using fermata = await open()
  let count = 0
  const start = clock()
  await fermata.runPrompt("writer", "Write", { onUpdate: () => void (count += 1) })
  return clock() - start
}

/** The milliseconds of a task, with subscribers that read all, and with others that read nothing. */
const planned = async (reading: number, idle: number) => {
  await using fermata = await open()
  await using plane = await fermata.controlPlane()
  const read = Array.from({ length: reading }, async () => {
    let characters = 0
    for await (const { event } of plane.events()) {
      if (event._tag === "model.textDelta") characters += event.delta.length
      if (event._tag === "task.completed") return characters
    }
    return characters
  })
  const iterators = Array.from({ length: idle }, () => plane.events()[Symbol.asyncIterator]())
  for (const iterator of iterators) await iterator.next()
  globalThis.gc?.()
  const before = process.memoryUsage().heapUsed
  const start = clock()
  await plane.submit({ _tag: "SubmitPrompt", prompt: "Write" })
  const { seq } = await plane.snapshot()
  for await (const { event } of plane.events({ from: Math.max(1, seq) }))
    if (event._tag === "task.completed") break
  await Promise.all(read)
  const ms = clock() - start
  globalThis.gc?.()
  const heldMb = (process.memoryUsage().heapUsed - before) / 1024 / 1024
  let text = ""
  for (const iterator of iterators) {
    text = ""
    while (true) {
      const { done, value } = await iterator.next()
      if (done === true || value.event._tag === "task.completed") break
      if (value.event._tag === "model.textDelta") text = text.slice(0, value.event.offset) + value.event.delta
      if (value.event._tag === "model.messageFinal" && text !== value.event.text)
        throw new Error("The text differs.")
    }
  }
  return { ms, heldMb }
}

const median = (times: ReadonlyArray<number>): number =>
  times.toSorted((a, b) => a - b)[Math.floor(times.length / 2)]!

const rows: Array<Record<string, unknown>> = []
const row = (name: string, value: number, unit: string, limit: string, isMet: boolean) => {
  rows.push({ name, value: Number(value.toFixed(2)), unit, limit, isMet })
  console.log(
    `${name.padEnd(52)} ${value.toFixed(2).padStart(12)} ${unit.padEnd(10)} ${limit}${isMet ? "" : "  EXCEEDED"}`
  )
}

await bare()
await planned(1, 0)
const bareMs: Array<number> = []
const oneMs: Array<number> = []
const idleMs: Array<number> = []
const held: Array<number> = []
for (let round = 0; round < rounds; round += 1) {
  bareMs.push(await bare())
  oneMs.push((await planned(1, 0)).ms)
  const idle = await planned(1, 1)
  idleMs.push(idle.ms)
  held.push(idle.heldMb)
}
const perSecond = (deltas / median(oneMs)) * 1000
const overMicros = ((median(oneMs) - median(bareMs)) / deltas) * 1000
const slower = (median(idleMs) / median(oneMs) - 1) * 100
row("deltas per second, one subscriber", perSecond, "deltas/s", ">= 200,000", perSecond >= 200_000)
row("a delta over the bare run, one subscriber", overMicros, "µs", "<= 1.5", overMicros <= 1.5)
row("slower with a subscriber that reads nothing", slower, "%", "<= 5", slower <= 5)
row("held for a subscriber that reads nothing", median(held), "MB", "<= 20", median(held) <= 20)
if (values.json !== undefined) Fs.writeFileSync(values.json, `${JSON.stringify(rows, null, 2)}\n`)
process.exitCode = rows.every(({ isMet }) => isMet) ? 0 : 1
