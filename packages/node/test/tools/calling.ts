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

/** Makes calls of tools in one response of the model. */
export type CallAll = (
  calls: ReadonlyArray<readonly [tool: string, args: object]>,
  deciding?: Deciding
) => Effect.Effect<ReadonlyArray<Outcome>>

/** Opens a program whose agent makes the calls that it is prompted to make, one in each run. */
export const caller = (calling: Calling): Effect.Effect<Call, never, Scope.Scope> =>
  Effect.map(
    callerOfAll(calling),
    (callAll) => (tool, args, deciding) =>
      Effect.map(callAll([[tool, args]], deciding), ([outcome]) => outcome!)
  )

/** Opens a program whose agent makes the calls that it is prompted to make, all of them in one run. */
export const callerOfAll = ({
  policy,
  sandbox,
  tools,
  workingDirectory
}: Calling): Effect.Effect<CallAll, never, Scope.Scope> =>
  Effect.gen(function* () {
    const model = ScriptedModel.make(({ messages, turn }) => {
      if (turn > 1) return "done"
      const [part] = messages.at(-1)!.content
      if (part?._tag !== "text") throw new Error("no call")
      return { calls: JSON.parse(part.text) }
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
    return (calls, { beforeDecision, decide } = {}) =>
      Effect.promise(async () => {
        const prompt = JSON.stringify(calls.map(([tool, args]) => ({ tool, arguments: args })))
        let run = await fermata.runPrompt("worker", prompt)
        const asked = new Map<string, Approval>()
        const askedOf = (at: number) => asked.get(`${run.runId}.t1.${at + 1}`)
        while (run.status === "interrupted") {
          for (const request of run.interruptions) {
            if (request._tag !== "approval") throw new Error(`held by ${request._tag}`)
            if (!asked.has(request.callId)) asked.set(request.callId, request)
          }
          if (decide === undefined)
            return calls.map((_, at) => ({
              result: "",
              files: [],
              outcome: undefined,
              asked: askedOf(at)
            }))
          beforeDecision?.()
          const decision = decide === "approve" ? approve() : deny("No.")
          const decisions = run.interruptions.map((request) => ({ request, decision }))
          run = await fermata.resume(run.state, { decisions: decisions as never })
        }
        if (run.status === "error") throw run.error
        const messages = model.requests
          .at(-1)
          ?.messages.filter((each): each is Message.ToolMessage => each.role === "tool")
        return calls.map((_, at) => {
          const message = messages?.find(({ callId }) => callId === `${run.runId}.t1.${at + 1}`)
          const parts = message?.content ?? []
          return {
            result: parts.map((part) => (part._tag === "text" ? part.text : "")).join(""),
            files: parts.flatMap((part) => (part._tag === "file" ? [part.mediaType] : [])),
            outcome: message?.outcome,
            asked: askedOf(at)
          }
        })
      })
  })
