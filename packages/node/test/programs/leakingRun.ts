/**
 * A run whose prompt, model, tools and deciders write every secret of the program, in every encoding, wherever they can. As a program, it runs on
 * a SQLite file: `start` prints `ready` when a tool hangs, and waits to be killed; `finish` continues the run to its end.
 *
 * Everything that leaves the run is passed to `emit`: updates, hooks, logs, spans, results and errors.
 */
import { execFile } from "node:child_process"
import { appendFileSync, writeSync } from "node:fs"
import { join } from "node:path"
import { inspect, promisify } from "node:util"
import {
  Agent,
  attachFile,
  cancelRun,
  createRuntime,
  decideStored,
  explain,
  exportRun,
  loadState,
  Message,
  ModelClient,
  ModelError,
  type RunResult,
  runPromptStored,
  Scrubber,
  Secrets,
  sendMessage,
  Tool
} from "@fermata/sdk"
import { ScriptedModel } from "@fermata/sdk/testing"
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Logger from "effect/Logger"
import * as Metric from "effect/Metric"
import * as Redacted from "effect/Redacted"
import * as References from "effect/References"
import * as Schedule from "effect/Schedule"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import * as Tracer from "effect/Tracer"
import { SqliteStore } from "../../src/index.ts"

/** What the secrets contain, in each encoding. Each character of a core is its own in the encodings in question. */
export const cores = {
  environment: "Kq7Xw2Lm9Tp4Vb8R",
  configuration: "Zd3Hs6Gf1Jn5Yc0W",
  vault: "Pm8Qr4Tk2Xs7Lv9B",
  obtained: "Fh5Nw1Cz6Dj3Gy8M"
}

const secretOf = (core: string): string => `${core}"/+&é`

const all = Object.values(cores).map(secretOf)

const encoded = (secret: string): ReadonlyArray<string> => {
  const bytes = Buffer.from(secret)
  return [
    secret,
    JSON.stringify(secret),
    JSON.stringify({ key: JSON.stringify({ key: secret }) }),
    bytes.toString("base64"),
    bytes.toString("base64url"),
    Buffer.from(`me:${secret}`).toString("base64"),
    bytes.toString("hex"),
    bytes.toString("hex").toUpperCase(),
    encodeURIComponent(secret)
  ]
}

const leaks = all.flatMap(encoded)
const leak = leaks.map((text) => `It is ${text} here.`).join("\n")
const address = `https://example.com/?key=${encodeURIComponent(secretOf(cores.environment))}`
const file = {
  _tag: "file",
  mediaType: "text/plain",
  source: { _tag: "bytes", base64: Buffer.from(leak).toString("base64") },
  name: `${secretOf(cores.vault)}.txt`
} as const
const linked = { _tag: "file", mediaType: "image/png", source: { _tag: "url", url: address } } as const

export type Emit = (place: string, value: unknown) => void

const leakingError = (): Error =>
  Object.assign(
    new Error(leak, {
      cause: new AggregateError([new Error(leak)], leak, { cause: { request: { headers: leaks } } })
    }),
    { [Symbol("request")]: new Map([["key", leaks]]), body: Buffer.from(leak), toJSON: () => leaks }
  )

/** Runs a command of which the output, on both streams, has a secret. */
const command = promisify(execFile)
const output = async (): Promise<string> => {
  const print = "process.stdout.write(process.env.LEAK); process.stderr.write(process.env.LEAK)"
  const { stderr, stdout } = await command(process.execPath, ["-e", print], { env: { LEAK: leak } })
  return `${stdout}\n${stderr}`
}

const agentThat = (ready: () => void) => {
  const parameters = Schema.Struct({ note: Schema.String, list: Schema.Json })
  const print = Tool.make("print", {
    parameters: Schema.Struct({ key: Schema.String }),
    safety: "readOnly",
    secrets: ["vault/key"],
    maxResultLength: 4000,
    handler: async function* ({ key }: { readonly key: string }) {
      if (key !== secretOf(cores.vault)) throw new Error("the handler has no secret")
      Secrets.remember("obtained", secretOf(cores.obtained))
      const printed = await output()
      yield { progress: leak }
      for (let at = 0; at < printed.length; at += 5) yield { output: printed.slice(at, at + 5) }
      yield { result: Tool.content([Message.text(printed.repeat(3)), Message.text(leak), file, linked]) }
    } as never
  })
  const structured = Tool.make("structured", {
    safety: "readOnly",
    success: Schema.Json,
    handler: () => ({ leaks, [secretOf(cores.vault)]: { deep: [leak] } })
  })
  const failing = Tool.make("failing", {
    safety: "readOnly",
    handler: () => {
      throw leakingError()
    }
  })
  const echo = Tool.make("echo", {
    parameters,
    preview: () => leak,
    risk: () => leak,
    facts: () => ({ leaks }),
    handler: (given) => given
  })
  const hang = Tool.make("hang", {
    parameters,
    needsApproval: false,
    handler: async function* () {
      yield { output: leak }
      yield { progress: leak }
      ready()
      await new Promise(() => {})
    } as never
  })
  return Agent.make("leaking", { tools: [print, structured, failing, echo, hang] })
}

const args = { note: leak, list: [{ key: leaks }] }

/** A model that repeats all secrets, and fails once. */
const makeModel = () => {
  let hasFailed = false
  return ScriptedModel.make(({ messages }) => {
    const said = { text: leak, reasoning: leak, chunkSize: 7 }
    switch (messages.filter(({ role }) => role === "assistant").length) {
      case 0:
        return { calls: [{ tool: "print", arguments: { key: "secret://vault/key" } }] }
      case 1:
        return { ...said, calls: ["structured", "failing"].map((tool) => ({ tool })) }
      case 2:
        return {
          ...said,
          calls: [
            { tool: leaks[0]!, arguments: args },
            { tool: "echo", arguments: args }
          ]
        }
      case 3:
        return { ...said, calls: [{ tool: "hang", arguments: args }] }
      default:
        if (hasFailed) return said
        hasFailed = true
        return { error: new ModelError.InvalidRequest({ description: leak }) }
    }
  }).client
}

class EmittedSpan extends Tracer.NativeSpan {
  readonly #emit: Emit
  constructor(options: ConstructorParameters<typeof Tracer.NativeSpan>[0], emit: Emit) {
    super(options)
    this.#emit = emit
  }
  override end(...given: Parameters<Tracer.NativeSpan["end"]>): void {
    super.end(...given)
    this.#emit("span", [this.name, [...this.attributes], this.events, this.status])
  }
}

/** Plays one half of the run. Returns its result. */
export const play = (half: "start" | "finish", emit: Emit, ready: () => void) =>
  Effect.gen(function* () {
    Secrets.remember("obtained", secretOf(cores.obtained))
    Secrets.remember("vault/key", secretOf(cores.vault))
    const hooked = (place: string) => (notice: unknown) => emit(`hook ${place}`, notice)
    const runtime = yield* createRuntime({
      agent: agentThat(ready),
      // That of the killed process expires.
      leaseTtl: half === "start" ? "5 seconds" : "1 minute",
      hooks: {
        onTurn: hooked("onTurn"),
        onModelCall: hooked("onModelCall"),
        onToolCall: hooked("onToolCall"),
        onRequest: hooked("onRequest"),
        onRunEnd: hooked("onRunEnd")
      }
    })
    const onUpdate = (update: unknown) => emit("update", update)
    const continued = (runId: string, more: object = {}) =>
      runPromptStored(runtime, { runId, ...more }, { onUpdate })
    const decide = (result: RunResult.RunResult, decision: object) =>
      Effect.forEach(result.status === "interrupted" ? result.interruptions : [], ({ requestId }) =>
        decideStored([runtime], { requestId, by: "ana", note: leak, ...decision } as never)
      )
    if (half === "start") {
      const attached = yield* attachFile(Buffer.from(leak.repeat(4)), { name: `${leaks[0]}.log` })
      const held = yield* runPromptStored(
        runtime,
        { runId: "leaking", prompt: [Message.text(leak), file, linked, attached] },
        { onUpdate }
      )
      emit("result", held)
      yield* sendMessage("leaking", [Message.text(leak), file, linked])
      yield* decide(held, { _tag: "approve" })
      return yield* continued("leaking")
    }
    const doubtful = yield* Effect.retry(continued("leaking"), {
      while: ({ _tag }) => _tag === "RunBusy",
      schedule: Schedule.spaced("100 millis")
    })
    emit("result", doubtful)
    yield* decide(doubtful, { _tag: "supply", result: { leaks } })
    const failed = yield* continued("leaking")
    emit("result", failed)
    const next = { runId: "next", prompt: leak, sessionId: failed.sessionId }
    const done = yield* runPromptStored(runtime, next, { onUpdate })
    emit("result", done)
    const unread = Effect.exit(attachFile(Stream.toReadableStream(Stream.fail(leakingError()))))
    emit("result", yield* unread)
    const other = yield* runPromptStored(runtime, { runId: "other", prompt: leak }, { onUpdate })
    yield* Effect.ignore(cancelRun("other", leak))
    emit("result", [other, yield* Effect.exit(continued("other"))])
    for (const runId of ["leaking", "next", "other"]) {
      emit("archive", yield* exportRun(runId))
      emit("state", yield* loadState(runId))
      emit("explanation", yield* explain(runId))
    }
    emit("metric", yield* Metric.snapshot)
    return failed
  }).pipe(
    Effect.tap((result) => Effect.sync(() => emit("result", result))),
    Effect.tapCause((cause) => Effect.sync(() => emit("error", cause))),
    Effect.provide(
      Layer.mergeAll(
        Logger.layer([
          Logger.make(({ cause, message }) => emit("log", [message, cause, Cause.pretty(cause)]))
        ]),
        Layer.succeed(Tracer.Tracer, Tracer.make({ span: (options) => new EmittedSpan(options, emit) })),
        Layer.succeed(
          Scrubber.Scrubber,
          Scrubber.make({ secrets: Scrubber.secretsIn({ APP_TOKEN: process.env["APP_TOKEN"] }) })
        ),
        Layer.succeed(ModelClient.ModelClient, {
          ...makeModel(),
          secrets: Effect.succeed([Redacted.make(secretOf(cores.configuration))])
        }),
        Secrets.layerMemory({ "vault/key": secretOf(cores.vault) })
      )
    ),
    Effect.provideService(References.MinimumLogLevel, "All")
  )

/** The environment of the program. */
export const environment = { APP_TOKEN: secretOf(cores.environment) }

/** A value as JSON and as a console shows it. */
export const shown = (value: unknown): string => {
  const json = JSON.stringify(value, (_, field: unknown) => (typeof field === "bigint" ? `${field}` : field))
  return `${json}\n${inspect(value, { depth: 50, maxArrayLength: null, maxStringLength: null, showHidden: true })}`
}

if (import.meta.main) {
  const [half = "", directory = ""] = process.argv.slice(2)
  const emit: Emit = (place, value) => appendFileSync(join(directory, `${place}.log`), `${shown(value)}\n`)
  const store = SqliteStore.layer({ filename: join(directory, "runs.db") })
  const ready = () => void writeSync(1, "ready\n")
  await Effect.runPromise(Effect.scoped(Effect.provide(play(half as "start", emit, ready), store)))
}
