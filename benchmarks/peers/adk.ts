/**
 * Google's ADK: an `LlmAgent` and its `Runner`, with the session service for SQL databases on SQLite.
 */
import * as Path from "node:path"
import {
  BaseLlm,
  type BaseLlmConnection,
  type BaseSessionService,
  createEvent,
  DatabaseSessionService,
  type Event,
  FunctionTool,
  getFunctionCalls,
  getFunctionResponses,
  InMemorySessionService,
  LlmAgent,
  type LlmRequest,
  type LlmResponse,
  LogLevel,
  REQUEST_CONFIRMATION_FUNCTION_CALL_NAME,
  Runner,
  setLogLevel,
  StreamingMode
} from "@google/adk"
import { SqliteDriver } from "@mikro-orm/sqlite"
import { z } from "zod"
import type { Adapter, Answer, Script } from "../System.ts"
import { turnByRoles } from "./turns.ts"

type Content = Parameters<Runner["runAsync"]>[0]["newMessage"]
export type Contents = LlmRequest["contents"]

setLogLevel(LogLevel.ERROR)

const contentOf = ({ calls = [], text }: Answer): Content => ({
  role: "model",
  parts: [
    ...(text === undefined ? [] : [{ text }]),
    ...calls.map(({ arguments: args, id, name }) => ({
      functionCall: { id, name, args: JSON.parse(args) as Record<string, unknown> }
    }))
  ]
})

/** A scripted model. */
export class Scripted extends BaseLlm {
  readonly say: (contents: Contents) => Answer | Promise<Answer>
  readonly deltas: ReadonlyArray<string>

  constructor(say: (contents: Contents) => Answer | Promise<Answer>, deltas: ReadonlyArray<string> = []) {
    super({ model: "scripted" })
    this.say = say
    this.deltas = deltas
  }

  override async *generateContentAsync({ contents }: LlmRequest): AsyncGenerator<LlmResponse, void> {
    for (const delta of this.deltas) yield { content: contentOf({ text: delta }), partial: true }
    yield { content: contentOf(await this.say(contents)), turnComplete: true }
  }

  override connect(): Promise<BaseLlmConnection> {
    throw new Error("This model has no live connection.")
  }
}

/** A user's text; the result of a tool has none. */
const roleOf = ({ parts, role }: Contents[number]) =>
  role === "model" ? "assistant" : parts?.[0]?.text === undefined ? "other" : "user"

/** The script as a model. */
export const scripted = ({ answer, pause }: Script): Scripted =>
  new Scripted(
    pause === undefined
      ? (contents) => answer(turnByRoles(contents, roleOf))
      : async (contents) => {
          await pause()
          return answer(turnByRoles(contents, roleOf))
        }
  )

const appName = "bench"
const userId = "user"

/** A runner that asks for confirmation of gated tools. */
export const runnerOf = (
  { tools }: Pick<Script, "tools">,
  model: BaseLlm,
  sessionService: BaseSessionService
): Runner =>
  new Runner({
    appName,
    sessionService,
    agent: new LlmAgent({
      name: "worker",
      model,
      tools: tools.map(
        ({ description, gated, name, parameters, run }) =>
          new FunctionTool({
            name,
            description,
            parameters: z.object(Object.fromEntries(parameters.map((key) => [key, z.number()]))),
            requireConfirmation: gated,
            execute: (args) => run(args as Record<string, number>)
          })
      )
    })
  })

/** A connection of the driver for Node. */
interface Connection {
  readonly run: (sql: string, then: (error: Error | null) => void) => void
}

/** The store, as durable as those of the others. */
export const storeIn = (folder: string): DatabaseSessionService =>
  new DatabaseSessionService({
    driver: SqliteDriver,
    dbName: Path.join(folder, "adk.db"),
    pool: {
      afterCreate: (connection: Connection, then: (error: Error | null, connection: Connection) => void) =>
        connection.run("PRAGMA journal_mode = WAL", () =>
          connection.run("PRAGMA busy_timeout = 5000", () =>
            connection.run("PRAGMA synchronous = FULL", (error) => then(error, connection))
          )
        )
    }
  })

/** ADK has no method for it. */
export const close = (service: DatabaseSessionService): Promise<void> =>
  (service as unknown as { readonly orm: { readonly close: () => Promise<void> } }).orm.close()

/** Runs until the agent stops by itself; returns the last text, and the pending confirmations. */
export const drive = async (runner: Runner, sessionId: string, newMessage: Content) => {
  let text = ""
  const waiting: Array<string> = []
  for await (const event of runner.runAsync({
    userId,
    sessionId,
    newMessage,
    runConfig: { maxLlmCalls: 1_000_000 }
  })) {
    if (event.errorMessage !== undefined) throw new Error(event.errorMessage)
    for (const { id, name } of getFunctionCalls(event))
      if (name === REQUEST_CONFIRMATION_FUNCTION_CALL_NAME) waiting.push(id!)
    text = event.content?.parts?.[0]?.text ?? text
  }
  return { text, waiting }
}

export const saying = (text: string): Content => ({ role: "user", parts: [{ text }] })

/** A confirmation, by the ids of the calls that request it. */
export const confirming = (ids: ReadonlyArray<string>): Content => ({
  role: "user",
  parts: ids.map((id) => ({
    functionResponse: { id, name: REQUEST_CONFIRMATION_FUNCTION_CALL_NAME, response: { confirmed: true } }
  }))
})

export const create = (service: BaseSessionService, sessionId?: string) =>
  service.createSession({ appName, userId, ...(sessionId === undefined ? {} : { sessionId }) })

export const sessionIn = async (
  service: BaseSessionService,
  sessionId: string
): Promise<ReadonlyArray<Event>> => (await service.getSession({ appName, userId, sessionId }))?.events ?? []

/** The requests for a confirmation that have no answer yet, with the arguments of the call that each is about. */
export const unanswered = async (service: BaseSessionService, sessionId: string) => {
  const events = await sessionIn(service, sessionId)
  const answered = new Set(events.flatMap(getFunctionResponses).map(({ id }) => id))
  return events
    .flatMap(getFunctionCalls)
    .filter(({ id, name }) => name === REQUEST_CONFIRMATION_FUNCTION_CALL_NAME && !answered.has(id))
    .map(({ args, id }) => ({
      id: id!,
      args: (args as { readonly originalFunctionCall: { readonly args: unknown } }).originalFunctionCall.args
    }))
}

const inMemory = async (script: Script) => {
  const service = new InMemorySessionService()
  const runner = runnerOf(script, scripted(script), service)
  return async () => {
    const { id } = await create(service)
    const { text } = await drive(runner, id, saying(script.prompt))
    await service.deleteSession({ appName, userId, sessionId: id })
    return text
  }
}

const conversation = "conversation"

export const adapter: Adapter = {
  step: inMemory,
  fanOut: inMemory,
  parallel: inMemory,
  stored: async (folder, script) => {
    const service = storeIn(folder)
    await service.init()
    const runner = runnerOf(script, scripted(script), service)
    return {
      run: async () => (await drive(runner, (await create(service)).id, saying(script.prompt))).text,
      close: () => close(service)
    }
  },
  hold: {
    prepare: async (folder, history) => {
      const service = storeIn(folder)
      const session = await create(service, conversation)
      const begin = Date.now() - history.length
      for (const [at, { role, text }] of history.entries())
        await service.appendEvent({
          session,
          event: createEvent({
            invocationId: `past-${Math.floor(at / 2)}`,
            author: role === "user" ? "user" : "worker",
            content: { role: role === "user" ? "user" : "model", parts: [{ text }] },
            timestamp: begin + at
          })
        })
      await close(service)
    },
    open: async (folder, script) => {
      const service = storeIn(folder)
      await service.init()
      const runner = runnerOf(script, scripted(script), service)
      return {
        start: async () => {
          const { waiting } = await drive(runner, conversation, saying(script.prompt))
          if (waiting.length === 0) throw new Error("The run is not held.")
        },
        finish: async () => {
          const [request] = await unanswered(service, conversation)
          if (request === undefined) throw new Error("Nothing is held.")
          return (await drive(runner, conversation, confirming([request.id]))).text
        },
        close: () => close(service)
      }
    }
  },
  stream: async ({ deltas, prompt }) => {
    const service = new InMemorySessionService()
    const runner = runnerOf({ tools: [] }, new Scripted(() => ({ text: deltas.join("") }), deltas), service)
    return async () => {
      let count = 0
      let characters = 0
      const { id } = await create(service)
      for await (const { content, partial } of runner.runAsync({
        userId,
        sessionId: id,
        newMessage: saying(prompt),
        runConfig: { streamingMode: StreamingMode.SSE }
      })) {
        if (partial !== true) continue
        count += 1
        characters += content?.parts?.[0]?.text?.length ?? 0
      }
      await service.deleteSession({ appName, userId, sessionId: id })
      return { deltas: count, characters }
    }
  },
  conversation: async (folder, answer) => {
    const service = storeIn(folder)
    const runner = runnerOf({ tools: [] }, new Scripted(() => ({ text: answer })), service)
    await create(service, conversation)
    return {
      say: async (text) => (await drive(runner, conversation, saying(text))).text,
      close: () => close(service)
    }
  },
  inbox: {
    cannot:
      "a request for a confirmation is an event in its session; to find those that are open, a program reads all events of all sessions."
  }
}
