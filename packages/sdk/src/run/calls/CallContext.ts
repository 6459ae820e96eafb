/**
 * The context that a handler receives about its call, with the signal that stops it.
 *
 * Published progress, output and media are scrubbed and not stored, and are dropped once the call is settled.
 */
import type * as Scope from "effect/Scope"
import { isApproved } from "../../domain/internal/released.ts"
import type { RunContext } from "../../domain/RunContext.ts"
import { findCall, type ToolCall } from "../../domain/RunState.ts"
import type { Shape as Sandbox } from "../../sandbox/Sandbox.ts"
import { isOutputChunk, type StreamName } from "../../tool/internal/outputChunk.ts"
import { type Planning, planning } from "../../tool/internal/planning.ts"
import { type Recall, recalling } from "../../tool/internal/recalling.ts"
import { type Remembering, remembering } from "../../tool/internal/remembering.ts"
import { targetIn, virtualPath } from "../../tool/internal/toolTarget.ts"
import type { Scrubber, ScrubStream } from "../../tool/Scrubber.ts"
import type { CallPolicy, ToolContext, ToolTarget } from "../../tool/ToolContext.ts"
import { isThere, stateOf, type AgentRun } from "../internal/AgentRun.ts"
import { emit, now } from "../internal/Drive.ts"
import { idempotencyKey } from "./idempotencyKey.ts"
import { judgeOnly } from "./judgeOnly.ts"
import { rememberingIn } from "./memoryOfCall.ts"
import { recallIn } from "./sessionContents.ts"

const stopping = Symbol("stopping")

/** The signal of a call, made on first use, and the reason of its stop. */
interface Stopping {
  controller: AbortController | undefined
  reason: Error | undefined
}

type Said =
  | { readonly _tag: "progress"; readonly message: string }
  | { readonly _tag: "output"; readonly chunk: string; readonly stream?: StreamName }
  | { readonly _tag: "media"; readonly path: string; readonly mediaType: string }

/** The context that a handler receives, with the signal that stops it. */
export class CallContext implements ToolContext {
  readonly runId: ToolContext["runId"]
  readonly sessionId: ToolContext["sessionId"]
  readonly callId: ToolContext["callId"]
  readonly agentPath: ToolContext["agentPath"]
  readonly context: RunContext
  readonly attempt: number
  readonly idempotencyKey: string
  readonly isApproved: boolean
  declare readonly signal: AbortSignal
  readonly progress: (message: string) => void
  readonly output: ToolContext["output"]
  readonly media: ToolContext["media"]
  readonly target: ToolTarget
  readonly http: ToolContext["http"]
  readonly policy: CallPolicy
  /** Only of a tool with the option `sandbox`. */
  declare readonly sandbox?: Sandbox
  declare readonly runScope?: Scope.Scope
  readonly [recalling]: Recall
  readonly [planning]: Planning
  /** Only in a runtime with memory. */
  declare readonly [remembering]?: Remembering
  /** A symbol instead of a private name, so that the signal works through a proxy of the context. */
  readonly [stopping]: Stopping = { controller: undefined, reason: undefined }
  readonly #run: AgentRun
  /** The output that is being scrubbed, by the names of its streams. */
  #outputs: Map<StreamName | undefined, ScrubStream> | undefined

  constructor(run: AgentRun, call: ToolCall, context: RunContext, sandbox: Sandbox | undefined) {
    const { agentPath, runId, sessionId } = stateOf(run)
    this.#run = run
    this.runId = runId
    this.sessionId = sessionId
    this.callId = call.id
    this.agentPath = agentPath
    this.context = context
    this.attempt = call.attempt + 1
    this.idempotencyKey = idempotencyKey(call)
    this.isApproved = isApproved(stateOf(run), call)
    if (sandbox !== undefined) {
      this.sandbox = sandbox
      Object.defineProperty(this, "runScope", CallContext.runScopeProperty)
    }
    // An own property, so that copies of the context have it. A getter in a literal would be slow in V8.
    Object.defineProperty(this, "signal", CallContext.signalProperty)
    this[recalling] = (digits) => recallIn(run, digits)
    const { memory } = run.drive.runtime
    if (memory !== undefined) this[remembering] = rememberingIn(run, call.id, memory)
    this[planning] = (entries) => {
      if (this.isUnderWay()) emit(run, { _tag: "plan.updated", at: now(run.drive), callId: call.id, entries })
    }
    this.progress = (given) => {
      if (run.drive.onUpdate !== undefined)
        this.publish({ _tag: "progress", message: this.scrubber.scrub(given) })
    }
    this.output = (given) => {
      if (run.drive.onUpdate === undefined) return
      const { chunk, stream } = isOutputChunk(given) ? given : { chunk: given, stream: undefined }
      this.write(this.scrubbing(stream).push(chunk), stream)
    }
    this.target = targetIn(sandbox)
    this.media = ({ mediaType, path: given }) => {
      const path = this.scrubber.scrub(virtualPath(this.target, given))
      this.publish({ _tag: "media", path, mediaType: this.scrubber.scrub(mediaType) })
      return path
    }
    this.http = run.drive.runtime.web
    this.policy = { judge: (tool, args) => judgeOnly(run, tool, args) }
  }

  private get scrubber(): Required<Scrubber> {
    return this.#run.drive.runtime.scrubber
  }

  private publish(said: Said): void {
    const { drive } = this.#run
    if (drive.onUpdate === undefined || !this.isUnderWay()) return
    const { agentPath, callId, runId: agentRunId } = this
    drive.onUpdate({ runId: drive.state.runId, agentRunId, agentPath, callId, ...said })
  }

  private scrubbing(stream: StreamName | undefined): ScrubStream {
    const outputs = (this.#outputs ??= new Map<StreamName | undefined, ScrubStream>())
    let scrubbing = outputs.get(stream)
    if (scrubbing === undefined) outputs.set(stream, (scrubbing = this.scrubber.stream()))
    return scrubbing
  }

  private write(chunk: string, stream: StreamName | undefined): void {
    if (chunk === "") return
    this.publish(stream === undefined ? { _tag: "output", chunk } : { _tag: "output", chunk, stream })
  }

  /** Publishes the output that was held back. Called when the body has ended, before its call is settled. */
  flush(): void {
    const outputs = this.#outputs
    this.#outputs = undefined
    if (outputs !== undefined) for (const [stream, held] of outputs) this.write(held.end(), stream)
  }

  /** Whether the call is started and not settled. What an abandoned body publishes later is dropped. */
  private isUnderWay(): boolean {
    const run = this.#run
    return isThere(run) && findCall(stateOf(run), this.callId)?.status === "started"
  }

  abort(): void {
    const stop = this[stopping]
    stop.reason = new Error(this.#run.token.reason() ?? "The call was stopped.")
    stop.controller?.abort(stop.reason)
  }

  /** Makes the scope on first use: most calls leave nothing. */
  private static readonly runScopeProperty = {
    configurable: true,
    enumerable: true,
    get(this: CallContext): Scope.Scope {
      const { "~sandboxes": sandboxes } = this.#run.drive.runtime
      return sandboxes.runScope(this.runId, this.sandbox!)
    }
  }

  /** Makes the signal on first use. */
  private static readonly signalProperty = {
    configurable: true,
    enumerable: true,
    get(this: CallContext): AbortSignal {
      const stop = this[stopping]
      stop.controller ??= new AbortController()
      // A signal that is first read after the stop is aborted too.
      if (stop.reason !== undefined) stop.controller.abort(stop.reason)
      return stop.controller.signal
    }
  }
}
