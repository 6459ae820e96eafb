/**
 * What Fermata itself costs, beside the least that the same work can cost in the same process: a step in memory, a step with
 * everything in SQLite, a hold cycle, a streamed answer, and an import. `npm run bench -- --rounds 5 --json out.json`; `--only decode`
 * measures one of them: `step`, `stored`, `hold`, `decode` or `import`.
 *
 * Figures are CPU time, medians over rounds that take turns, and ratios to the floor of the same round; only ratios travel from one
 * machine to another.
 */
import * as ChildProcess from "node:child_process"
import * as Fs from "node:fs"
import * as Os from "node:os"
import * as Path from "node:path"
import { DatabaseSync } from "node:sqlite"
import { parseArgs } from "node:util"
import { agent, approve, createFermata, Id, ModelClient, Runtime, runPrompt, tool } from "@fermata/node"
import * as Effect from "effect/Effect"
import * as HttpClient from "effect/http/HttpClient"
import * as HttpClientResponse from "effect/http/HttpClientResponse"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import {
  AnthropicMessages,
  type ModelPart,
  type ModelRequest,
  OpenAiChat,
  OpenAiResponses
} from "@fermata/sdk/model"
import { environment, root } from "./internal/run.ts"

const { values } = parseArgs({
  options: { rounds: { type: "string", default: "5" }, json: { type: "string" }, only: { type: "string" } }
})
const rounds = Number(values.rounds)

const usage = { inputTokens: 1, outputTokens: 1, costUsd: 0 }
const callAdd: ReadonlyArray<ModelPart.ModelPart> = [
  { _tag: "tool-call", providerCallId: "call_0", name: "add", arguments: '{"a":1,"b":2}' },
  { _tag: "finish", finishReason: "toolCalls", usage }
]
const sayDone: ReadonlyArray<ModelPart.ModelPart> = [
  { _tag: "text-delta", delta: "done" },
  { _tag: "finish", finishReason: "stop", usage }
]

/** A model that calls `add` in the first `turns` turns, and costs nothing itself. */
const modelOf = (turns: number): ModelClient.ModelClient["Service"] => ({
  stream: ({ turn }) => Stream.fromArray(turn <= turns ? callAdd : sayDone),
  complete: () => Effect.die("This model only streams.")
})

let added = 0
const add = tool("add", {
  parameters: Schema.Struct({ a: Schema.Number, b: Schema.Number }),
  safety: "readOnly",
  handler: async ({ a, b }) => {
    added += 1
    return a + b
  }
})
const calculator = agent("calculator", { tools: [add], limits: { maxTurns: 1_000_000 } })

/** The same work by hand: a loop, a call, a parse, a push. */
const bareLoop = async (turns: number): Promise<void> => {
  const messages: Array<{ readonly role: string; readonly content: string }> = []
  const model = async (turn: number) => (turn <= turns ? callAdd : sayDone)
  for (let turn = 1; ; turn++) {
    const [part] = await model(turn)
    if (part?._tag !== "tool-call") return
    messages.push({ role: "assistant", content: part.arguments })
    const { a, b } = JSON.parse(part.arguments) as { readonly a: number; readonly b: number }
    added += 1
    messages.push({ role: "tool", content: String(await Promise.resolve(a + b)) })
  }
}

const inMemory = (turns: number): Promise<unknown> =>
  Effect.runPromise(
    Effect.flatMap(Runtime.make({ agent: calculator }), (runtime) =>
      runPrompt(runtime, { prompt: "Add" })
    ).pipe(Effect.provideService(ModelClient.ModelClient, modelOf(turns)))
  )

const folder = Fs.mkdtempSync(Path.join(Os.tmpdir(), "fermata-bench-"))
let files = 0
const file = () => Path.join(folder, `${++files}.db`)

const stored = async (turns: number): Promise<number> => {
  const store = file()
  await using fermata = await createFermata({ agents: [calculator], model: modelOf(turns), store })
  await fermata.runPrompt("calculator", "Warm up", { limits: { maxTurns: 1 } })
  const before = process.cpuUsage()
  await fermata.runPrompt("calculator", "Add")
  return micros(before)
}

/** A fenced append of what a step adds, and nothing else: compare-and-set on the head, one row, one commit. */
const storedFloor = async (turns: number): Promise<number> => {
  const database = new DatabaseSync(file())
  database.exec("PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL")
  database.exec("CREATE TABLE head (id TEXT PRIMARY KEY, revision INT, epoch INT)")
  database.exec(
    "CREATE TABLE journal (id TEXT, sequence INT, events TEXT, PRIMARY KEY (id, sequence)) WITHOUT ROWID"
  )
  database.exec("INSERT INTO head VALUES ('run', 0, 1)")
  const fence = database.prepare(
    "UPDATE head SET revision = revision + 4 WHERE id = 'run' AND revision = ? AND epoch = 1"
  )
  const append = database.prepare("INSERT INTO journal VALUES ('run', ?, ?)")
  const events = JSON.stringify([callAdd, callAdd, callAdd, callAdd])
  const before = process.cpuUsage()
  for (let turn = 0; turn < turns; turn++) {
    database.exec("BEGIN IMMEDIATE")
    fence.run(turn * 4)
    append.run(turn * 4, events)
    database.exec("COMMIT")
  }
  const spent = micros(before)
  database.close()
  return spent
}

const act = tool("act", { handler: () => "done" })

/** Start, hold, fresh objects, approve, finish. Returns the CPU time, and the bytes that the database grew by. */
const holdCycle = async (messages: number): Promise<number> => {
  const store = file()
  const look = tool("look", { safety: "readOnly", handler: () => "seen" })
  const holder = agent("holder", { tools: [look, act], limits: { maxTurns: 1_000_000 } })
  const parts = (name: string): ReadonlyArray<ModelPart.ModelPart> => [
    { _tag: "tool-call", providerCallId: "call_0", name, arguments: "{}" },
    { _tag: "finish", finishReason: "toolCalls", usage }
  ]
  const model: ModelClient.ModelClient["Service"] = {
    stream: ({ turn }) =>
      Stream.fromArray(
        turn <= messages / 2 ? parts("look") : turn === messages / 2 + 1 ? parts("act") : sayDone
      ),
    complete: () => Effect.die("This model only streams.")
  }
  const open = () => createFermata({ agents: [holder], model, store })
  {
    await using fermata = await open()
    await fermata.runPrompt("holder", "Go", { runId: "run" })
  }
  const before = process.cpuUsage()
  await using fermata = await open()
  const [pending] = await fermata.pending()
  if (pending === undefined) throw new Error("Nothing is pending.")
  await fermata.decide(pending, approve())
  const end = await fermata.resume("run")
  if (end.status !== "completed") throw new Error(`The run is ${end.status}.`)
  return micros(before)
}

const deltas = 20_000
const event = (data: { readonly type?: string }): string =>
  `${data.type === undefined ? "" : `event: ${data.type}\n`}data: ${JSON.stringify(data)}\n\n`
const answerOf = (
  before: object,
  delta: (text: string) => object,
  after: ReadonlyArray<object>
): Uint8Array =>
  new TextEncoder().encode(
    [before, ...Array.from({ length: deltas }, (_, index) => delta(`word${index} `)), ...after]
      .map(event)
      .join("")
  )

/** An answer of 20,000 deltas in each protocol. */
const answers = {
  chat: answerOf(
    { choices: [{ index: 0, delta: { role: "assistant", content: "" } }] },
    (content) => ({
      id: "chatcmpl-1",
      object: "chat.completion.chunk",
      choices: [{ index: 0, delta: { content }, finish_reason: null }]
    }),
    [{ choices: [{ index: 0, delta: {}, finish_reason: "stop" }] }]
  ),
  responses: answerOf(
    {
      type: "response.output_item.added",
      output_index: 0,
      item: { id: "msg_1", type: "message", role: "assistant", content: [] }
    },
    (delta) => ({
      type: "response.output_text.delta",
      item_id: "msg_1",
      output_index: 0,
      content_index: 0,
      delta
    }),
    [{ type: "response.completed", response: { status: "completed", output: [] } }]
  ),
  messages: answerOf(
    { type: "content_block_start", index: 0, content_block: { type: "text", text: "" } },
    (text) => ({ type: "content_block_delta", index: 0, delta: { type: "text_delta", text } }),
    [
      { type: "content_block_stop", index: 0 },
      { type: "message_delta", delta: { stop_reason: "end_turn" } },
      { type: "message_stop" }
    ]
  )
}

/** The answer as a network brings it, 4 kB at a time. */
const body = (answer: Uint8Array) =>
  new ReadableStream<Uint8Array>({
    start: (controller) => {
      for (let from = 0; from < answer.length; from += 4096)
        controller.enqueue(answer.subarray(from, from + 4096))
      controller.close()
    }
  })

/** The data of each event, and nothing made of it. */
const splitEvents = async (answer: Uint8Array): Promise<void> => {
  const decoder = new TextDecoder()
  let rest = ""
  let events = 0
  for await (const chunk of body(answer)) {
    const pieces = (rest + decoder.decode(chunk, { stream: true })).split("\n\n")
    rest = pieces.pop() ?? ""
    for (const piece of pieces) if (piece.slice(6) !== "") events += 1
  }
  if (events <= deltas) throw new Error(`There are ${events} events.`)
}

const protocols = { chat: OpenAiChat, responses: OpenAiResponses, messages: AnthropicMessages }

const decodeAnswer = (protocol: keyof typeof answers): Promise<void> =>
  Effect.runPromise(
    Effect.gen(function* () {
      const client = yield* protocols[protocol].make({ model: "m", apiKey: "none" })
      let parts = 0
      yield* Stream.runForEachArray(client.stream(asked), (some) => {
        parts += some.length
        return Effect.void
      })
      if (parts < deltas) throw new Error(`There are ${parts} parts.`)
    }).pipe(
      Effect.provideService(
        HttpClient.HttpClient,
        HttpClient.make((request) =>
          Effect.sync(() =>
            HttpClientResponse.fromWeb(
              request,
              new Response(body(answers[protocol]), { headers: { "content-type": "text/event-stream" } })
            )
          )
        )
      )
    )
  )
const asked: ModelRequest.ModelRequest = {
  runId: Id.RunId.make("run"),
  sessionId: Id.SessionId.make("session"),
  agentPath: ["a"],
  turn: 1,
  instructions: "",
  messages: [],
  tools: []
}
const perDelta = (work: () => Promise<void>) => async () => (await timed(work)) / deltas

/** What is imported is what would be published. */
const build = () => {
  ChildProcess.execFileSync(process.execPath, ["scripts/build.ts"], {
    cwd: root,
    env: environment,
    stdio: "inherit"
  })
}

const importCpu = async (specifiers: ReadonlyArray<string>): Promise<number> => {
  const program = `const t = process.cpuUsage(); ${specifiers.map((name) => `await import("${name}")`).join("; ")}; const u = process.cpuUsage(t); console.log(u.user + u.system)`
  const out = ChildProcess.execFileSync(process.execPath, ["--input-type=module", "-e", program], {
    cwd: root,
    env: environment,
    encoding: "utf8"
  })
  return Number(out)
}

const micros = (before: NodeJS.CpuUsage): number => {
  const { user, system } = process.cpuUsage(before)
  return user + system
}

const timed = async (work: () => Promise<unknown>): Promise<number> => {
  const before = process.cpuUsage()
  await work()
  return micros(before)
}

const perStep = (turns: number, repeat: number, work: (turns: number) => Promise<unknown>) => async () =>
  (await timed(async () => {
    for (let i = 0; i < repeat; i++) await work(turns)
  })) /
  (turns * repeat)

interface Workload {
  /** What `--only` calls it. */
  readonly group: "step" | "stored" | "hold" | "decode" | "import"
  readonly name: string
  readonly unit: string
  readonly floor: () => Promise<number>
  readonly fermata: () => Promise<number>
  /** What it may cost beside the floor, in its unit. */
  readonly most?: number
}

const workloads: ReadonlyArray<Workload> = [
  {
    group: "step",
    name: "step, 50 turns",
    unit: "µs/step",
    floor: perStep(50, 200, bareLoop),
    fermata: perStep(50, 20, inMemory)
  },
  {
    group: "step",
    name: "step, 200 turns",
    unit: "µs/step",
    floor: perStep(200, 50, bareLoop),
    fermata: perStep(200, 5, inMemory)
  },
  {
    group: "stored",
    name: "stored step, 200 turns",
    unit: "µs/step",
    floor: async () => (await storedFloor(200)) / 200,
    fermata: async () => (await stored(200)) / 200
  },
  {
    group: "hold",
    name: "release of a held run, 10 messages (floor: 3 appends)",
    unit: "µs",
    floor: () => storedFloor(3),
    fermata: () => holdCycle(10)
  },
  {
    group: "hold",
    name: "release of a held run, 5,000 messages (floor: 3 appends)",
    unit: "µs",
    floor: () => storedFloor(3),
    fermata: () => holdCycle(5000)
  },
  ...(["chat", "responses", "messages"] as const).map((protocol): Workload => ({
    group: "decode",
    name: `reading a streamed answer of ${protocol} (floor: splitting it)`,
    unit: "µs/delta",
    floor: perDelta(() => splitEvents(answers[protocol])),
    fermata: perDelta(() => decodeAnswer(protocol)),
    most: 3
  })),
  {
    group: "import",
    name: "import @fermata/sdk (floor: the Effect that it needs)",
    unit: "µs",
    floor: () => importCpu(["effect/Schema", "effect/Stream"]),
    fermata: () => importCpu(["@fermata/sdk"])
  }
]

const median = (numbers: ReadonlyArray<number>): number =>
  numbers.toSorted((a, b) => a - b)[Math.floor(numbers.length / 2)] ?? Number.NaN

const chosen = workloads.filter(({ group }) => values.only === undefined || group === values.only)
if (chosen.length === 0) throw new Error(`There is no workload ${values.only}: see the head of this file.`)
if (chosen.some(({ group }) => group === "import")) build()

const results = []
for (const workload of chosen) {
  // Once for the compiler; its figures are not kept.
  await workload.floor()
  await workload.fermata()
  const floors: Array<number> = []
  const ours: Array<number> = []
  for (let round = 0; round < rounds; round++) {
    floors.push(await workload.floor())
    ours.push(await workload.fermata())
  }
  const [floor, fermata] = [median(floors), median(ours)]
  const { most, name, unit } = workload
  results.push({ name, unit, floor, fermata, ratio: fermata / floor })
  const beside = fermata - floor
  const bound =
    most === undefined
      ? ""
      : `, ${beside.toFixed(1)} ${unit} beside it (${beside <= most ? "within" : "OVER"} ${most})`
  console.log(
    `${name.padEnd(62)} ${fermata.toFixed(1).padStart(10)} ${unit.padEnd(8)} ${(fermata / floor).toFixed(1)} x floor${bound}`
  )
}
if (chosen.some(({ group }) => group === "step") && added === 0) throw new Error("No tool was called.")
Fs.rmSync(folder, { recursive: true, force: true })
if (values.json !== undefined) Fs.writeFileSync(values.json, `${JSON.stringify(results, null, 2)}\n`)
