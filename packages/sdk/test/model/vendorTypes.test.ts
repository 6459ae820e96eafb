/**
 * The bodies of all three protocols against the types that the vendors publish, as the packages `openai` and `@anthropic-ai/sdk`. Without
 * these packages, the tests are skipped.
 */
import { execFileSync } from "node:child_process"
import { mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { createRequire } from "node:module"
import { tmpdir } from "node:os"
import { dirname, join } from "node:path"
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Agent from "../../src/agent/Agent.ts"
import type { FilePart, ToolOutcome } from "../../src/domain/Message.ts"
import type { AnsweredPart } from "../../src/domain/RunEvent.ts"
import { messages } from "../../src/model/internal/anthropic/messages.ts"
import { chat } from "../../src/model/internal/openai/chat.ts"
import { responses } from "../../src/model/internal/openai/responses.ts"
import type { Protocol } from "../../src/model/internal/protocol.ts"
import type { Compatibility, ModelProfile, ProtocolName } from "../../src/model/ModelProfile.ts"
import type { ModelRequest } from "../../src/model/ModelRequest.ts"
import { runPrompt } from "../../src/run/runPrompt.ts"
import * as Tool from "../../src/tool/Tool.ts"
import * as WaitTool from "../../src/tool/WaitTool.ts"
import { bind, safe } from "../helpers/Fixture.ts"
import { bytesOf, fixture, inPieces, read } from "./Fixtures.ts"
import { answer, call, requestOf, result, tool, user } from "./Histories.ts"

const require = createRequire(import.meta.url)

/** The folder of an installed package; `undefined` if it is not installed. */
const folderOf = (name: string): string | undefined => {
  try {
    return dirname(require.resolve(name))
  } catch {
    return undefined
  }
}
const openai = folderOf("openai")
const anthropic = folderOf("@anthropic-ai/sdk")

/** A protocol, the vendor's type of its body, and recordings of its answers. */
const vendors = {
  chat: {
    protocol: chat,
    type: "ChatCompletionCreateParams",
    from: "openai/resources/chat/completions/completions",
    model: "gpt-4.1",
    compatibility: { strict: true },
    answers: ["openai-parallel-tools", "openai-text"]
  },
  responses: {
    protocol: responses,
    type: "ResponseCreateParams",
    from: "openai/resources/responses/responses",
    model: "gpt-5.5",
    // The type requires the ids, which are not sent by default.
    compatibility: { itemIds: true, strict: true },
    answers: ["openai-encrypted-summary-1", "openai-phase", "openai-mcp-approval", "lmstudio-tool-call"]
  },
  messages: {
    protocol: messages,
    type: "MessageCreateParams",
    from: "@anthropic-ai/sdk/resources/messages/messages",
    // The type has no `temperature`, which only older models accept.
    model: "claude-opus-4-8",
    compatibility: {},
    answers: ["thinking", "redacted-thinking", "code-execution", "tool-no-args"]
  }
} satisfies Record<
  ProtocolName,
  {
    readonly protocol: Protocol
    readonly type: string
    readonly from: string
    readonly model: string
    readonly compatibility: Compatibility
    readonly answers: ReadonlyArray<string>
  }
>

const outcomes = [
  "completed",
  "failed",
  "denied",
  "cancelled",
  "supplied"
] satisfies ReadonlyArray<ToolOutcome>

const bytes = { _tag: "bytes", base64: "aGk=" } as const
const file = (mediaType: string, source: FilePart["source"], name?: string): FilePart => ({
  _tag: "file",
  mediaType,
  source,
  ...(name === undefined ? {} : { name })
})
const files: ReadonlyArray<FilePart> = [
  file("image/png", bytes),
  file("image/png", { _tag: "url", url: "https://files.example/a.png" }),
  file("application/pdf", bytes, "a.pdf"),
  file("application/pdf", { _tag: "url", url: "https://files.example/a.pdf" }),
  file("text/csv", bytes, "a.csv"),
  file("audio/wav", bytes),
  file("application/zip", bytes, "a.zip"),
  file("image/png", { _tag: "reference", id: "file_1", provider: "another" })
]

/** The tools of a lead that delegates in the background, hands over, asks its user and waits, as its model sees them. */
const ownTools = Effect.gen(function* () {
  const helper = Agent.make("helper", { description: "Helps." })
  const lead = Agent.make("lead", {
    subAgents: [helper],
    handoffs: [Agent.make("boss")],
    delegation: "delegate",
    tools: [WaitTool.make(), Tool.askUser, safe().tool]
  })
  const { model, runtime } = yield* bind(lead, ["done"])
  yield* runPrompt(runtime, { prompt: "go" })
  return model.requests[0]!.tools
})

/** Twelve histories; `said` is what the model answered before. */
const histories = (
  said: ReadonlyArray<AnsweredPart>,
  tools: ModelRequest["tools"]
): Readonly<Record<string, ModelRequest>> => {
  const calls = said.filter((part) => part._tag === "toolCall").length
  const results = Array.from({ length: calls }, (_, index) => result(1, index + 1, "found"))
  const foreign: ReadonlyArray<AnsweredPart> = [
    { _tag: "reasoning", text: "Hm.", provider: "another", payload: { type: "thinking", signature: "s" } },
    { _tag: "text", text: "Let me look." }
  ]
  return {
    "a question": requestOf([user("Hello?")]),
    "instructions and two questions": requestOf([user("Hello?"), user("Who is it?")], {
      instructions: "Be brief."
    }),
    files: requestOf([user([{ _tag: "text", text: "Look:" }, ...files])]),
    "calls with results, one of which failed": requestOf(
      [
        user("Look."),
        answer(1, [call("a"), call("a"), call("")]),
        ...[1, 2].map((ordinal) => result(1, ordinal, "found")),
        result(1, 3, "There is no such file.", "failed")
      ],
      { tools: [tool] }
    ),
    "a result with files": requestOf(
      [user("Look."), answer(1, [call("a")]), result(1, 1, [{ _tag: "text", text: "Here:" }, ...files])],
      { tools: [tool] }
    ),
    "an answer of the same model": requestOf([user("Look."), answer(1, said), ...results, user("Go on.")], {
      tools: [tool]
    }),
    "an answer of another model": requestOf([user("Look."), answer(1, foreign), user("And?")]),
    "a beginning that is left out": requestOf([answer(1, [{ _tag: "text", text: "So." }]), user("And?")]),
    "each outcome of a call, notes of the runtime and an answer that was cut": requestOf(
      [
        user("Look."),
        answer(1, [call("a"), call("b"), call("c"), call("d"), call("e")]),
        ...outcomes.map((outcome, index) => result(1, index + 1, outcome, outcome)),
        { ...user("Correct this."), origin: "runtime" } as ReturnType<typeof user>,
        { ...answer(2, [{ _tag: "text", text: "I wi" }]), cut: true } as ReturnType<typeof answer>,
        { ...user("Your last answer is incomplete."), origin: "runtime" } as ReturnType<typeof user>,
        user("And?")
      ],
      { tools: [tool] }
    ),
    "the runtime's own tools": requestOf([user("Look.")], { tools }),
    "an output schema": requestOf([user("Look.")], {
      output: { name: "found", schema: { ...tool.parameters, additionalProperties: false } }
    }),
    "all settings": requestOf([user("Look.")], {
      tools: [tool],
      settings: {
        temperature: 0.5,
        topP: 0.5,
        maxOutputTokens: 4000,
        stop: ["."],
        seed: 1,
        reasoningEffort: "low",
        toolChoice: { tool: tool.name },
        parallelToolCalls: false
      }
    })
  }
}

/** What the model said in a recording. */
const saidIn = (protocol: Protocol, profile: ModelProfile, name: string): ReadonlyArray<AnsweredPart> => {
  const { text } = fixture(profile.protocol, name)
  return read(protocol.decoder(profile), inPieces(bytesOf(text), 4096)).response?.content ?? assert.fail(name)
}

/** A module that assigns every body of a protocol to the vendor's type. */
const moduleOf = (name: ProtocolName, tools: ModelRequest["tools"], changes: Compatibility = {}): string => {
  const { answers, compatibility, from, model, protocol, type } = vendors[name]
  const profile: ModelProfile = {
    name,
    protocol: name,
    baseUrl: "https://models.example/v1",
    model,
    compatibility: { ...compatibility, ...changes }
  }
  const lines = [`import type { ${type} as Body } from ${JSON.stringify(from)}`]
  for (const recorded of answers) {
    for (const [title, request] of Object.entries(histories(saidIn(protocol, profile, recorded), tools))) {
      for (const streaming of [true, false]) {
        const body = protocol.encode(request, profile, streaming)
        lines.push(
          `/* ${title}, ${recorded} */ export const _${lines.length}: Body = ${JSON.stringify(body, null, 1)}`
        )
      }
    }
  }
  return `${lines.join("\n")}\n`
}

/** The errors of the compiler about these modules. */
const errorsIn = (modules: ReadonlyArray<string>): string => {
  const folder = mkdtempSync(join(tmpdir(), "fermata-types-"))
  try {
    modules.forEach((text, index) => writeFileSync(join(folder, `bodies${index}.ts`), text))
    const paths = { "openai/*": [`${openai}/*`], "@anthropic-ai/sdk/*": [`${anthropic}/*`] }
    const compilerOptions = {
      strict: true,
      noEmit: true,
      skipLibCheck: true,
      types: [],
      lib: ["ES2024", "DOM", "DOM.Iterable"],
      target: "ES2023",
      module: "ESNext",
      moduleResolution: "Bundler",
      paths
    }
    writeFileSync(join(folder, "tsconfig.json"), JSON.stringify({ compilerOptions, include: ["*.ts"] }))
    const compiler = join(dirname(require.resolve("typescript/package.json")), "bin/tsc")
    execFileSync(process.execPath, [compiler, "-p", folder], { encoding: "utf8" })
    return ""
  } catch (cause) {
    return String((cause as { readonly stdout?: unknown }).stdout ?? cause)
  } finally {
    rmSync(folder, { recursive: true })
  }
}

describe.skipIf(openai === undefined || anthropic === undefined)("a body", () => {
  for (const name of ["chat", "responses", "messages"] as const) {
    it.effect(
      `has the vendor's published type over twelve histories (${name})`,
      () =>
        Effect.gen(function* () {
          const tools = yield* ownTools
          assert.includeMembers(
            tools.map(({ name }) => name),
            ["delegate", "transfer_to_boss", "ask_user", "wait"]
          )
          const other = { store: true, strict: false }
          assert.strictEqual(errorsIn([moduleOf(name, tools), moduleOf(name, tools, other)]), "")
        }),
      120_000
    )
  }
})
