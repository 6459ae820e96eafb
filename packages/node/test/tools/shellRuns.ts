/**
 * Runs of an agent with the tools for commands, in a new directory of this machine.
 */
import { readdirSync, readFileSync, readlinkSync } from "node:fs"
import {
  agent,
  approve,
  createFermata,
  type Fermata,
  type Interruption,
  localSandbox,
  type Message,
  type RunUpdate,
  type SandboxProvider,
  type ShellOptions,
  shellTools
} from "@fermata/node"
import { ScriptedModel } from "@fermata/node/testing"
import type * as Duration from "effect/Duration"
import type * as Schema from "effect/Schema"

/** A call of the script, with the texts of the earlier results as an argument. */
export type Call = readonly [tool: string, args: object | ((results: ReadonlyArray<string>) => object)]

type Asked = Extract<Interruption.Interruption, { readonly _tag: "approval" }>

export interface PlayOptions extends ShellOptions {
  readonly workdir: string
  /** Makes the provider. Default: {@link localSandbox}. */
  readonly sandbox?: (workdir: string) => SandboxProvider.Shape
  readonly store?: string
  readonly policy?: "ask" | "all"
  readonly leaseTtl?: Duration.Input
  /** Whether requests are approved. Default: `true`. */
  readonly approved?: boolean
  readonly signal?: AbortSignal
  readonly onUpdate?: (update: RunUpdate.RunUpdate) => void
}

/** What a run came to. */
export interface Played {
  readonly status: string
  /** The texts of the results, one for each call. */
  readonly results: ReadonlyArray<string>
  readonly outcomes: ReadonlyArray<string>
  readonly asked: ReadonlyArray<Asked>
  readonly updates: ReadonlyArray<RunUpdate.RunUpdate>
}

/** An agent with the tools, which makes these calls one after another. */
export const opened = async (
  calls: ReadonlyArray<Call> | ((results: ReadonlyArray<string>) => Call | undefined),
  options: Omit<PlayOptions, "approved" | "signal" | "onUpdate">
) => {
  const { leaseTtl, policy = "ask", sandbox, store, workdir, ...shell } = options
  const model = ScriptedModel.make(({ messages }) => {
    const results = resultTexts(messages)
    const call = typeof calls === "function" ? calls(results) : calls[results.length]
    if (call === undefined) return "done"
    const [tool, args] = call
    return {
      calls: [{ tool, arguments: (typeof args === "function" ? args(results) : args) as Schema.Json }]
    }
  })
  const fermata = await createFermata({
    agents: [agent("developer", { tools: shellTools(shell), policy: { mode: policy } })],
    model: model.client,
    sandbox: sandbox?.(workdir) ?? localSandbox({ workdir }),
    store: store ?? ":memory:",
    ...(leaseTtl === undefined ? {} : { leaseTtl })
  })
  return { fermata, model }
}

/** Makes the calls, and answers what is asked. */
export const play = async (
  calls: ReadonlyArray<Call>,
  { approved, onUpdate, signal, ...options }: PlayOptions
): Promise<Played> => {
  const { fermata, model } = await opened(calls, options)
  await using _ = fermata
  return await drive(fermata, model, {
    ...(approved === undefined ? {} : { approved }),
    ...(onUpdate === undefined ? {} : { onUpdate }),
    ...(signal === undefined ? {} : { signal })
  })
}

export const drive = async (
  fermata: Fermata.Fermata,
  model: ScriptedModel.ScriptedModel,
  { approved = true, onUpdate, signal }: Pick<PlayOptions, "approved" | "onUpdate" | "signal">
): Promise<Played> => {
  const asked: Array<Asked> = []
  const updates: Array<RunUpdate.RunUpdate> = []
  const watching = {
    ...(signal === undefined ? {} : { signal }),
    onUpdate: (update: RunUpdate.RunUpdate) => {
      updates.push(update)
      onUpdate?.(update)
    }
  }
  let run = await fermata.runPrompt("developer", "Do it", watching)
  while (run.status === "interrupted") {
    const [request] = run.interruptions
    if (request?._tag !== "approval") break
    asked.push(request)
    if (!approved) break
    await fermata.decide(request, approve())
    run = await fermata.resume(run.runId, watching)
  }
  const messages = toolMessages(model.requests.at(-1)?.messages ?? [])
  return {
    status: run.status,
    results: messages.map(textOf),
    outcomes: messages.map(({ outcome }) => outcome),
    asked,
    updates
  }
}

const toolMessages = (messages: ReadonlyArray<Message.Message>) =>
  messages.filter((each): each is Message.ToolMessage => each.role === "tool")

const textOf = ({ content }: Message.ToolMessage): string =>
  content.map((part) => (part._tag === "text" ? part.text : "")).join("")

/** The texts of the results in a history. */
export const resultTexts = (messages: ReadonlyArray<Message.Message>) => toolMessages(messages).map(textOf)

/** The output of the updates. */
export const outputOf = (updates: ReadonlyArray<RunUpdate.RunUpdate>): string =>
  updates.map((update) => (update._tag === "output" ? update.chunk : "")).join("")

/** The processes whose command line has a text, zombies included, other than this one. */
export const processesWith = (text: string): ReadonlyArray<string> =>
  readdirSync("/proc").filter((pid) => {
    if (!/^\d+$/.test(pid) || pid === String(process.pid)) return false
    try {
      return readFileSync(`/proc/${pid}/cmdline`, "latin1").includes(text)
    } catch {
      return false
    }
  })

/** The children of this process, zombies included. */
export const childrenOfThis = (): ReadonlyArray<string> =>
  readdirSync("/proc").filter((pid) => {
    if (!/^\d+$/.test(pid)) return false
    try {
      const stat = readFileSync(`/proc/${pid}/stat`, "latin1")
      return stat.slice(stat.lastIndexOf(")") + 2).split(" ")[1] === String(process.pid)
    } catch {
      return false
    }
  })

/** The open descriptors of this process. */
export const descriptors = (): ReadonlyArray<string> =>
  readdirSync("/proc/self/fd").flatMap((fd) => {
    try {
      return [readlinkSync(`/proc/self/fd/${fd}`)]
    } catch {
      return []
    }
  })
