/**
 * `effect/ai` with `Chat` and a toolkit. It has no loop of its own: the adapter calls the model until an answer has no calls. Its state
 * is the exported chat, which the program keeps: here in one row of a table.
 */
import * as Chat from "effect/ai/Chat"
import * as LanguageModel from "effect/ai/LanguageModel"
import type * as Prompt from "effect/ai/Prompt"
import type * as Response from "effect/ai/Response"
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import { numbered, openBlobs } from "../peers/blobs.ts"
import { turnByLength, turnByRoles } from "../peers/turns.ts"
import type { Adapter, Answer, Held, PastMessage, Script } from "../System.ts"

const usage = { inputTokens: { total: 1 }, outputTokens: { total: 1 } }

const partsOf = ({ calls = [], text }: Answer): Array<Response.PartEncoded> => [
  ...(text === undefined ? [] : [{ type: "text", text } as const]),
  ...calls.map(
    ({ arguments: json, id, name }) =>
      ({ type: "tool-call", id, name, params: JSON.parse(json) as unknown }) as const
  ),
  { type: "finish", reason: calls.length > 0 ? "tool-calls" : "stop", usage, response: undefined }
]

type Turn = (prompt: Prompt.Prompt) => number

const modelOf = (
  answer: (prompt: Prompt.Prompt) => Answer,
  pause?: () => Promise<void>
): Promise<LanguageModel.LanguageModel> =>
  Effect.runPromise(
    LanguageModel.make({
      generateText: ({ prompt }) => {
        const parts = () => partsOf(answer(prompt))
        return pause === undefined ? Effect.sync(parts) : Effect.map(Effect.promise(pause), parts)
      },
      streamText: () => Stream.die("This model does not stream.")
    })
  )

const toolkitOf = (tools: Script["tools"]) => {
  const toolkit = Toolkit.make(
    ...tools.map(({ description, gated, name, parameters }) =>
      Tool.make(name, {
        description,
        parameters: Schema.Struct(Object.fromEntries(parameters.map((key) => [key, Schema.Number]))),
        success: Schema.String,
        needsApproval: gated
      })
    )
  )
  return Effect.runPromise(
    toolkit.pipe(
      Effect.provide(
        toolkit.toLayer(
          Object.fromEntries(
            tools.map(({ name, run }) => [
              name,
              (args: Readonly<Record<string, number>>) => Effect.promise(async () => run(args))
            ])
          )
        )
      )
    )
  )
}

/** The parts of a run that are made once. Gated tools need approval. */
export const bindWith = async (
  tools: Script["tools"],
  answer: (prompt: Prompt.Prompt) => Answer,
  pause?: () => Promise<void>
) => {
  const toolkit = await toolkitOf(tools)
  const model = await modelOf(answer, pause)
  /** Calls the model until an answer has no calls, or one of them needs approval. */
  const ask = (chat: Chat.Chat, prompt: Prompt.RawInput, onTurn: Effect.Effect<void> = Effect.void) =>
    Effect.gen(function* () {
      for (let next = prompt; ; next = []) {
        const response = yield* chat.generateText({ prompt: next, toolkit })
        yield* onTurn
        const asked = response.content.flatMap((part) =>
          part.type === "tool-approval-request" ? [part.approvalId] : []
        )
        if (response.toolCalls.length === 0 || asked.length > 0) return { text: response.text, asked }
      }
    }).pipe(Effect.provideService(LanguageModel.LanguageModel, model))
  return ask
}

const bind = ({ answer, pause, tools }: Script, turnOf: Turn) =>
  bindWith(tools, (prompt) => answer(turnOf(prompt)), pause)

const turnInHistory: Turn = ({ content }) =>
  turnByRoles(content, ({ role }) => (role === "user" || role === "assistant" ? role : "other"))

const inMemory = async (script: Script) => {
  const turn = turnByLength({
    ...script,
    // All results of a turn are one message.
    answer: (at) =>
      script.answer(at).calls === undefined ? {} : { calls: [{ id: "", name: "", arguments: "" }] }
  })
  const ask = await bind(script, ({ content }) => turn(content.length))
  const run = Effect.flatMap(Chat.empty, (chat) => ask(chat, script.prompt))
  return async () => (await Effect.runPromise(run)).text
}

type Ask = Awaited<ReturnType<typeof bind>>

const chatOf = (history: ReadonlyArray<PastMessage>) =>
  Chat.fromPrompt(
    history.map(({ role, text }) =>
      role === "user"
        ? { role, content: [{ type: "text", text }] }
        : { role, content: [{ type: "text", text }] }
    )
  )

/** Runs until a call needs approval; returns the text of the chat, with the requests. */
const untilHeld = (ask: Ask, chat: Chat.Chat, prompt: string) =>
  Effect.gen(function* () {
    const { asked } = yield* ask(chat, prompt)
    if (asked.length === 0) return yield* Effect.die(new Error("The run was not held."))
    return JSON.stringify({ asked, chat: yield* chat.exportJson })
  })

interface Waiting {
  readonly asked: ReadonlyArray<string>
  readonly chat: string
  readonly approved?: boolean
}

const parse = (text: string | undefined): Waiting => {
  if (text === undefined) throw new Error("Nothing is held.")
  return JSON.parse(text) as Waiting
}

const release = (ask: Ask, { asked, chat: json }: Waiting) =>
  Effect.gen(function* () {
    const chat = yield* Chat.fromJson(json)
    const { text } = yield* ask(chat, [
      {
        role: "tool",
        content: asked.map(
          (approvalId) => ({ type: "tool-approval-response", approvalId, approved: true }) as const
        )
      }
    ])
    return { text, json: yield* chat.exportJson }
  })

export const adapter: Adapter = {
  step: inMemory,
  fanOut: inMemory,
  parallel: inMemory,
  stored: async (folder, script) => {
    const blobs = openBlobs(folder)
    const ask = await bind(script, ({ content }) => (content.length + 1) / 2)
    let runs = 0
    return {
      run: () =>
        Effect.runPromise(
          Effect.gen(function* () {
            const id = numbered("run-", ++runs)
            const chat = yield* Chat.empty
            const save = Effect.orDie(Effect.map(chat.exportJson, (json) => blobs.write(id, json)))
            return (yield* ask(chat, script.prompt, save)).text
          })
        ),
      close: blobs.close
    }
  },
  hold: {
    prepare: async (folder, history) => {
      const blobs = openBlobs(folder)
      const json = await Effect.runPromise(Effect.flatMap(chatOf(history), (chat) => chat.exportJson))
      blobs.write("conversation", json)
      await blobs.close()
    },
    open: async (folder, script) => {
      const blobs = openBlobs(folder)
      const ask = await bind(script, turnInHistory)
      return {
        start: async () => {
          const chat = await Effect.runPromise(Chat.fromJson(blobs.read("conversation") ?? ""))
          blobs.write("held", await Effect.runPromise(untilHeld(ask, chat, script.prompt)))
        },
        finish: async () => {
          const { json, text } = await Effect.runPromise(release(ask, parse(blobs.read("held"))))
          blobs.write("conversation", json)
          blobs.remove("held")
          return text
        },
        close: blobs.close
      }
    }
  },
  stream: async ({ deltas, prompt }) => {
    const parts = async function* (): AsyncGenerator<Response.StreamPartEncoded> {
      yield { type: "text-start", id: "text" }
      for (const delta of deltas) yield { type: "text-delta", id: "text", delta }
      yield { type: "text-end", id: "text" }
      yield { type: "finish", reason: "stop", usage, response: undefined }
    }
    const model = await Effect.runPromise(
      LanguageModel.make({
        generateText: () => Effect.die("This model only streams."),
        streamText: () => Stream.fromAsyncIterable(parts(), (error) => error as never)
      })
    )
    return () =>
      Effect.runPromise(
        Effect.gen(function* () {
          let count = 0
          let characters = 0
          const chat = yield* Chat.empty
          yield* Stream.runForEachArray(chat.streamText({ prompt }), (some) => {
            for (const part of some) {
              if (part.type !== "text-delta") continue
              count += 1
              characters += part.delta.length
            }
            return Effect.void
          })
          return { deltas: count, characters }
        }).pipe(Effect.provideService(LanguageModel.LanguageModel, model))
      )
  },
  conversation: async (folder, answer) => {
    const blobs = openBlobs(folder)
    const ask = await bind({ prompt: "", tools: [], answer: () => ({ text: answer }) }, () => 1)
    return {
      say: (text) =>
        Effect.runPromise(
          Effect.gen(function* () {
            const json = blobs.read("conversation")
            const chat = yield* json === undefined ? Chat.empty : Chat.fromJson(json)
            const said = yield* ask(chat, text)
            blobs.write("conversation", yield* chat.exportJson)
            return said.text
          })
        ),
      close: blobs.close
    }
  },
  inbox: async (folder, script) => {
    const blobs = openBlobs(folder)
    const ask = await bind(script, turnInHistory)
    let runs = 0
    return {
      hold: async () => {
        const held = Effect.flatMap(Chat.empty, (chat) => untilHeld(ask, chat, script.prompt))
        blobs.write(numbered("held-", ++runs), await Effect.runPromise(held))
      },
      list: async (limit) =>
        blobs.list("held-", limit).map((id): Held => ({
          approve: async () => blobs.write(id, JSON.stringify({ ...parse(blobs.read(id)), approved: true })),
          resume: async () => {
            const waiting = parse(blobs.read(id))
            if (waiting.approved !== true) throw new Error("It was not approved.")
            const { json, text } = await Effect.runPromise(release(ask, waiting))
            blobs.write(id.replace("held", "done"), json)
            blobs.remove(id)
            return text
          }
        })),
      close: blobs.close
    }
  }
}
