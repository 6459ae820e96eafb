/**
 * Calls of tools in real runs: what the model reads as the result, and what a person is asked.
 */
import { agent, approve, createFermata, deny, type Tool } from "@fermata/node"
import { ScriptedModel } from "@fermata/node/testing"
import type { ApprovalPolicy, Interruption, Message, SandboxProvider } from "@fermata/sdk"
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"

type Approval = Extract<Interruption.Interruption, { readonly _tag: "approval" }>

/** Ends with the result of the last call, or with the request that holds the run. */
export interface Outcome {
  readonly result: string
  readonly files: ReadonlyArray<string>
  readonly outcome: Message.ToolMessage["outcome"] | undefined
  /** The first request of the run. */
  readonly asked: Approval | undefined
}

export interface Calling {
  readonly tools: ReadonlyArray<Tool.Tool>
  readonly policy?: ApprovalPolicy.ApprovalPolicy
  readonly sandbox?: SandboxProvider.Shape
  readonly workingDirectory?: string
}

export interface Deciding {
  /** The decision about each request. Default: none, and the run is held. */
  readonly decide?: "approve" | "deny" | undefined
  /** Runs before each decision. */
  readonly beforeDecision?: () => void
}

/** Makes one call of a tool. */
export type Call = (tool: string, args: object, deciding?: Deciding) => Effect.Effect<Outcome>

/** Opens a program whose agent makes the calls that it is prompted to make, one in each run. */
export const caller = ({
  policy,
  sandbox,
  tools,
  workingDirectory
}: Calling): Effect.Effect<Call, never, Scope.Scope> =>
  Effect.gen(function* () {
    const model = ScriptedModel.make(({ messages, turn }) => {
      if (turn > 1) return "done"
      const [part] = messages.at(-1)!.content
      if (part?._tag !== "text") throw new Error("no call")
      return { calls: [JSON.parse(part.text)] }
    })
    const worker = agent("worker", { tools: [...tools], ...(policy === undefined ? {} : { policy }) })
    const fermata = yield* Effect.acquireRelease(
      Effect.promise(() =>
        createFermata({
          agents: [worker],
          model: model.client,
          store: false,
          ...(sandbox === undefined ? {} : { sandbox }),
          ...(workingDirectory === undefined ? {} : { workingDirectory })
        })
      ),
      (fermata) => Effect.promise(() => fermata[Symbol.asyncDispose]())
    )
    return (tool, args, { beforeDecision, decide } = {}) =>
      Effect.promise(async () => {
        let run = await fermata.runPrompt("worker", JSON.stringify({ tool, arguments: args }))
        let asked: Approval | undefined
        while (run.status === "interrupted") {
          const [request] = run.interruptions
          if (request?._tag !== "approval") throw new Error(`held by ${request?._tag}`)
          asked ??= request
          if (decide === undefined) return { result: "", files: [], outcome: undefined, asked }
          beforeDecision?.()
          const decision = decide === "approve" ? approve() : deny("No.")
          run = await fermata.resume(run.state, { decisions: [{ request, decision }] })
        }
        if (run.status === "error") throw run.error
        const message = model.requests
          .at(-1)
          ?.messages.findLast((each): each is Message.ToolMessage => each.role === "tool")
        const parts = message?.content ?? []
        return {
          result: parts.map((part) => (part._tag === "text" ? part.text : "")).join(""),
          files: parts.flatMap((part) => (part._tag === "file" ? [part.mediaType] : [])),
          outcome: message?.outcome,
          asked
        }
      })
  })
