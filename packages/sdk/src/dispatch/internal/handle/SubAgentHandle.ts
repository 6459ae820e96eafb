/**
 * The handle of a sub-agent's run, which is part of its root's run. It performs its operations through a handle of the root, and folds the
 * events of the root that concern the sub-agent.
 */
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Stream from "effect/Stream"
import { definitionInLine, missingIn } from "../../../agent/internal/definitions.ts"
import type { RunUpdate } from "../../../agent/RunUpdate.ts"
import type { DecisionInput } from "../../../domain/Decision.ts"
import { isWithin, type RequestId, type RunId, type ToolCallId } from "../../../domain/Id.ts"
import { childAfter, childState, eventOfSubAgent } from "../../../domain/internal/subAgents.ts"
import type { Interruption } from "../../../domain/Interruption.ts"
import { next } from "../../../domain/next.ts"
import { RequestNotFound } from "../../../domain/Rejection.ts"
import type { ReopenOptions } from "../../../domain/reopenInState.ts"
import { isEnded, type RunState } from "../../../domain/RunState.ts"
import { cancelRun } from "../../../durable/cancelRun.ts"
import type { Explanation } from "../../../durable/explain.ts"
import { resultOf } from "../../../run/internal/result.ts"
import type { Prompt } from "../../../run/Mail.ts"
import type { RunResult } from "../../../run/RunResult.ts"
import type {
  AgentHandle,
  HandleStatus,
  HandleUpdate,
  SendError,
  HandleSendOptions,
  StoredFault
} from "../../AgentHandle.ts"
import { SubAgentNotForked } from "../../DispatchError.ts"
import { subAgentEvents, SubAgentProjection } from "../events/subAgentEvents.ts"
import type { StoredFailure } from "./driveStored.ts"
import { statusOf, type Ended } from "./HandleState.ts"
import { ObservedHandle } from "./ObservedHandle.ts"
import { send } from "./send.ts"
import type { StoredHandle } from "./StoredHandle.ts"

export class SubAgentHandle
  extends ObservedHandle<unknown, StoredFault>
  implements AgentHandle<unknown, StoredFault>
{
  readonly runId: RunId
  readonly name = undefined
  over = false
  private readonly root: StoredHandle<unknown>
  private readonly path: ReadonlyArray<ToolCallId>
  private child: RunState
  /** The number of events of the root's journal from which `child` was folded. */
  private revision: number
  protected currentStatus: HandleStatus = "running"
  private readonly unlisten: () => void

  constructor(
    root: StoredHandle<unknown>,
    path: ReadonlyArray<ToolCallId>,
    found: { readonly state: RunState; readonly revision: number }
  ) {
    super()
    this.root = root
    this.path = path
    this.runId = found.state.runId
    this.child = found.state
    this.revision = found.revision
    this.unlisten = root.listen(() => this.look())
  }

  get sessionId() {
    return this.child.sessionId
  }

  get state() {
    return (): RunState => this.child
  }

  get interruptions() {
    return (): ReadonlyArray<Interruption> =>
      this.over ? [] : this.root.interruptions().filter(({ runId }) => isWithin(runId, this.runId))
  }

  get openRequests(): Effect.Effect<ReadonlyArray<Interruption>, StoredFault> {
    return Effect.map(this.root.openRequests, (open) =>
      open.filter(({ runId }) => isWithin(runId, this.runId))
    )
  }

  get events(): Stream.Stream<HandleUpdate, StoredFault> {
    return Stream.suspend(() =>
      subAgentEvents(this.root.events, new SubAgentProjection(this.runId, this.path))
    )
  }

  get cancel() {
    return (reason = "It was cancelled."): Effect.Effect<RunResult, StoredFailure> =>
      Effect.suspend(() => {
        if (isEnded(this.child)) return this.done
        return Effect.andThen(
          Effect.map(this.root.inStore(cancelRun(this.runId, reason)), () => this.root.resume()),
          this.done
        )
      })
  }

  get decide() {
    return (decision: DecisionInput) =>
      Effect.suspend(() => {
        const requestId: unknown = (decision as Partial<DecisionInput> | undefined)?.requestId
        return typeof requestId === "string" && !isWithin(requestId, this.runId)
          ? Effect.fail(new RequestNotFound({ requestId: requestId as RequestId }))
          : this.root.decide(decision)
      })
  }

  get reopen() {
    return (requestId: RequestId, options: ReopenOptions) =>
      Effect.suspend(() =>
        isWithin(String(requestId), this.runId)
          ? this.root.reopen(requestId, options)
          : Effect.fail(new RequestNotFound({ requestId }))
      )
  }

  get send() {
    return (prompt: Prompt, options: HandleSendOptions = {}) =>
      send<unknown, StoredFault>(this, prompt, options)
  }

  get explain(): Effect.Effect<Explanation, StoredFault> {
    return this.root.explained(this.runId)
  }

  deliver(prompt: Prompt, messageId: string | undefined): Effect.Effect<void, SendError | StoredFault> {
    return this.root.deliverTo(this.runId, prompt, messageId)
  }

  fork(): Effect.Effect<never, SubAgentNotForked> {
    return Effect.fail(new SubAgentNotForked({ runId: this.runId, root: this.root.runId }))
  }

  /** Folds an event of the root. */
  follow(update: Extract<RunUpdate, { readonly _tag: "event" }>): void {
    if (update.revision !== this.revision + 1) return
    this.revision = update.revision
    const event = eventOfSubAgent(update.event, this.path)
    if (event === undefined) return
    this.child = childAfter(this.child, event) ?? this.child
    this.look()
  }

  /** Updates the status from the states of the sub-agent and of the root. */
  look(): void {
    if (this.over) return
    const { root } = this
    // The root has events of another process that were not published here.
    if (root.revision > this.revision) this.root.launch(this.readAgain)
    const open = this.interruptions().length
    this.over = isEnded(this.child) || root.over
    const now = this.standing(open)
    this.currentStatus = now
    if (this.over) this.unlisten()
    this.notify()
  }

  private standing(open: number): HandleStatus {
    const { child } = this
    const { root } = this
    const status = root.status.current()
    if (isEnded(child)) return child.status
    if (root.over) return root.exit === undefined || Exit.isSuccess(root.exit) ? "error" : statusOf(root.exit)
    // A hold without open requests was decided, and its run is about to continue.
    if (next(child)._tag === "Hold") return open > 0 ? "held" : "running"
    return status === "held" || status === "queued" ? status : "running"
  }

  /** The current result of the sub-agent's run. */
  protected get outcome(): Ended<unknown, StoredFault> | Effect.Effect<RunResult, StoredFailure> {
    const { child } = this
    const { exit, runtime } = this.root
    if (isEnded(child)) return Effect.flatMap(this.definition, (holder) => resultOf(child, holder, []))
    if (!this.over || exit === undefined) {
      const state = this.root.state()
      const all = state === undefined ? [] : missingIn(runtime, state)
      const missing = all.filter(({ id }) => isWithin(id, this.runId))
      return Effect.map(resultOf(child, undefined, missing), (result) =>
        result.status === "interrupted" ? { ...result, interruptions: this.interruptions() } : result
      )
    }
    // The root has failed or was suspended. The sub-agent's state stays as it was.
    return Exit.map(exit, (result) => ({ ...result, runId: this.runId, state: child, usage: child.usage }))
  }

  /**
   * The agent that has the conversation, to decode the run's output; `undefined` without output. The run may have left the root's state, so
   * the definition is looked up by the root's events.
   */
  private get definition() {
    return Effect.suspend(() => {
      const { child, path, root } = this
      if (child.output === undefined) return Effect.succeed(undefined)
      return Effect.map(root.options.store.events(root.runId), (events) =>
        definitionInLine(
          root.runtime.bound,
          path.flatMap((_, index) => childState(events, path.slice(0, index + 1)) ?? [])
        )
      )
    })
  }

  /** Reads and folds the events that were not published here. */
  private get readAgain(): Effect.Effect<void> {
    return Effect.suspend(() => {
      const { root } = this
      return root.options.store.events(root.runId).pipe(
        Effect.map((events) => {
          if (this.over || events.length <= this.revision) return
          this.revision = events.length
          this.child = childState(events, this.path) ?? this.child
          this.look()
        }),
        Effect.ignore
      )
    })
  }
}
