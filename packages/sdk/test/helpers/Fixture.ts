/**
 * Shared by the tests of the loop: tools that record their calls, agents bound to a scripted model, and views of a run's result.
 */
import { assert } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import type * as Agent from "../../src/agent/Agent.ts"
import { createRuntime } from "../../src/agent/createRuntime.ts"
import * as Runtime from "../../src/agent/Runtime.ts"
import type { RuntimeHooks } from "../../src/agent/RuntimeHooks.ts"
import type { RunUpdate } from "../../src/agent/RunUpdate.ts"
import type { DecisionInput } from "../../src/domain/Decision.ts"
import type { Interruption, ToolApprovalItem } from "../../src/domain/Interruption.ts"
import { textOf } from "../../src/domain/Message.ts"
import type { RunEvent } from "../../src/domain/RunEvent.ts"
import { unwrap } from "../../src/domain/RunEvent.ts"
import type { RunState } from "../../src/domain/RunState.ts"
import { messages } from "../../src/domain/RunState.ts"
import * as RunStateCodec from "../../src/domain/RunStateCodec.ts"
import { ModelClient } from "../../src/model/ModelClient.ts"
import type { RunResult } from "../../src/run/RunResult.ts"
import * as ScriptedModel from "../../src/testing/ScriptedModel.ts"
import * as Tool from "../../src/tool/Tool.ts"
import type { ToolContext } from "../../src/tool/ToolContext.ts"

/** A tool and the calls of its body. */
export interface Probe<R = never> {
  readonly tool: Tool.Tool<R>
  /** The `id` argument of each call of its body, in order. */
  readonly ran: Array<string>
  readonly contexts: Array<ToolContext>
}

const Parameters = Schema.Struct({ id: Schema.String, path: Schema.optionalKey(Schema.String) })
type Arguments = typeof Parameters.Type

/** A tool that takes `{ id, path? }`, records its calls, and returns `name:id` by default. */
export const probe = <Out = string>(
  name: string,
  options: Partial<Tool.ToolOptions<Arguments, Out>> = {}
): Probe<Tool.Services<Out>> => {
  const ran: Array<string> = []
  const contexts: Array<ToolContext> = []
  const { handler = (({ id }: Arguments) => `${name}:${id}`) as unknown as (args: Arguments) => Out } =
    options
  const tool = Tool.make(name, {
    description: `Does ${name}`,
    parameters: Parameters as Schema.Codec<Arguments, unknown>,
    ...options,
    handler: (args: Arguments, context): Out => {
      ran.push(args.id)
      contexts.push(context)
      return handler(args, context)
    }
  })
  return { tool, ran, contexts }
}

/** A read-only probe. */
export const safe = <Out = string>(
  name = "safe",
  options: Partial<Tool.ToolOptions<Arguments, Out>> = {}
): Probe<Tool.Services<Out>> => probe(name, { safety: "readOnly", ...options })

/** A call of a script; its provider id is the `id` argument. */
export const call = (tool: string, id: string, path?: string): ScriptedModel.ScriptedCall => ({
  tool,
  id,
  arguments: path === undefined ? { id } : { id, path }
})

/** Binds an agent to a script, with a grace period of 20 ms. */
export const bind = <R = never, Output = undefined>(
  agent: Agent.Agent<R, Output>,
  script: ReadonlyArray<ScriptedModel.Script>,
  options: Omit<Runtime.RuntimeOptions<R, Output>, "agent"> = {}
) => rebind(agent, ScriptedModel.make(script), options)

/** Binds an agent to an existing model, as another process would. */
export const rebind = <R = never, Output = undefined>(
  agent: Agent.Agent<R, Output>,
  model: ScriptedModel.ScriptedModel,
  options: Omit<Runtime.RuntimeOptions<R, Output>, "agent"> = {}
) =>
  Effect.map(
    Effect.provideService(
      Runtime.make({ cancelGrace: "20 millis", ...options, agent }),
      ModelClient,
      model.client
    ),
    (runtime) => ({ runtime, model })
  )

/** As {@link bind}, with the options that only `createRuntime` takes. */
export const bindCreated = <R = never, Output = undefined>(
  agent: Agent.Agent<R, Output>,
  script: ReadonlyArray<ScriptedModel.Script>,
  options: { readonly hooks?: RuntimeHooks; readonly maxResultLength?: number } = {}
) => {
  const model = ScriptedModel.make(script)
  return Effect.map(
    Effect.provideService(
      createRuntime({ cancelGrace: "20 millis", ...options, agent }),
      ModelClient,
      model.client
    ),
    (runtime) => ({ runtime, model })
  )
}

/** Asserts the status of a result, and returns the result. */
export const expect = <S extends RunResult["status"], Output = unknown>(
  result: RunResult<Output>,
  status: S
): Extract<RunResult<Output>, { readonly status: S }> => {
  const why = result.status === "error" ? `: ${result.error.message}` : ""
  assert.strictEqual<string>(result.status, status, `the run is ${result.status}${why}`)
  return result as Extract<RunResult<Output>, { readonly status: S }>
}

/** The open approval of the call with this `id` argument. */
export const approvalOf = (result: RunResult<any>, id: string): ToolApprovalItem => {
  const found = expect(result, "interrupted").interruptions.find(
    (request) => request._tag === "approval" && (request.arguments as { id?: string }).id === id
  )
  assert.isDefined(found, `no approval waits for ${id}`)
  return found as ToolApprovalItem
}

/** The only open request of a held run. */
export const only = <Tag extends Interruption["_tag"]>(
  result: RunResult<any>,
  tag: Tag
): Extract<Interruption, { readonly _tag: Tag }> => {
  const { interruptions } = expect(result, "interrupted")
  assert.deepStrictEqual(
    interruptions.map(({ _tag }) => _tag as string),
    [tag]
  )
  return interruptions[0] as Extract<Interruption, { readonly _tag: Tag }>
}

type Body<Tag extends DecisionInput["_tag"]> = Omit<
  Extract<DecisionInput, { readonly _tag: Tag }>,
  "_tag" | "requestId" | "by"
> & { readonly by?: string }

/** Approves a request, with the digest of the arguments that it shows. */
export const approve = (request: Interruption, body: Body<"approve"> = {}): DecisionInput => ({
  _tag: "approve",
  requestId: request.requestId,
  by: "ann",
  ...(request._tag === "approval" ? { digest: request.digest } : {}),
  ...body
})

export const deny = (request: Interruption, body: Body<"deny"> = {}): DecisionInput => ({
  _tag: "deny",
  requestId: request.requestId,
  by: "ann",
  ...body
})

/** What the result of a call that `ann` edited begins with. */
export const edit = (proposed: object, approved: object): string =>
  `ann edited the arguments of this call.\nProposed: ${JSON.stringify(proposed)}\nApproved: ${JSON.stringify(approved)}\n`

/** The results in the history, as `name outcome: text`. */
export const results = (state: RunState): ReadonlyArray<string> =>
  messages(state).flatMap((message) =>
    message.role === "tool" ? [`${message.name} ${message.outcome}: ${textOf(message.content)}`] : []
  )

/** The history, as `role: text`, with the names of the calls in parentheses. */
export const transcript = (state: RunState): ReadonlyArray<string> =>
  messages(state).map((message) => {
    const calls =
      message.role === "assistant"
        ? message.content.flatMap((part) => (part._tag === "toolCall" ? [part.name] : []))
        : []
    return `${message.role}: ${textOf(message.content)}${calls.length === 0 ? "" : `(${calls.join(", ")})`}`
  })

/** Asserts that the history is valid for a provider. */
export const assertValid = (state: RunState): void =>
  assert.isUndefined(ScriptedModel.validateHistory(messages(state)))

/** The state as another process would read it. */
export const throughJson = (state: RunState): RunState =>
  Result.getOrThrow(RunStateCodec.decode(RunStateCodec.encode(state)))

/** Records the updates of a run. */
export const watch = () => {
  const updates: Array<RunUpdate> = []
  return {
    updates,
    onUpdate: (update: RunUpdate) => {
      updates.push(update)
    },
    /** The tags of the events, sub-agents' included. */
    tags: (): ReadonlyArray<string> => events(updates).map((event) => unwrap(event).event._tag)
  }
}

/** The events among updates. */
export const events = (updates: ReadonlyArray<RunUpdate>): ReadonlyArray<RunEvent> =>
  updates.flatMap((update) => (update._tag === "event" ? [update.event] : []))
