/**
 * Opens the sandbox of a run for the calls of its tree, and records its reference.
 *
 * The root's state holds the reference, so that all runs of the tree act in one sandbox. It is committed before the first body that acts in
 * the sandbox, at the latest. No call acts elsewhere: without its sandbox, it does not start.
 */
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import type { OpenError } from "../../agent/internal/Sandboxes.ts"
import { sameJson } from "../../domain/internal/json.ts"
import { isEnded } from "../../domain/RunState.ts"
import type { SandboxRef } from "../../domain/SandboxRef.ts"
import type { Shape as Sandbox } from "../../sandbox/Sandbox.ts"
import { SandboxUnavailable } from "../../sandbox/SandboxError.ts"
import type { AnyTool } from "../../tool/Tool.ts"
import { type AgentRun, judgingMs } from "../internal/AgentRun.ts"
import { emitRoot, now } from "../internal/Drive.ts"
import { cleanJson } from "../internal/redact.ts"

/** The open sandbox of a run; `undefined` if it is not open in this process. */
export const openSandboxOf = ({ drive }: AgentRun): Sandbox | undefined =>
  drive.runtime["~sandboxes"].find(drive.state)

/** Opens the sandbox of a run, or returns the open one. */
export const openSandbox = (run: AgentRun): Effect.Effect<Sandbox, OpenError> =>
  Effect.suspend(() => {
    const { runtime, state } = run.drive
    return Effect.tap(runtime["~sandboxes"].open(state), ({ ref }) => record(run, ref))
  })

/** As {@link openSandbox}, within the time of a tool's callback. The opening goes on after that, for the next attempt. */
export const openSandboxInTime = (run: AgentRun, tool: AnyTool): Effect.Effect<Sandbox, OpenError> => {
  const ms = judgingMs(run, tool)
  return Effect.timeoutOrElse(openSandbox(run), {
    duration: ms,
    orElse: () => {
      const backend = run.drive.runtime["~sandboxes"].provider?.backend ?? "none"
      const problem = `it did not open within ${ms} ms`
      return Effect.fail(SandboxUnavailable.make({ backend, problem, retryable: true }))
    }
  })
}

/** Records the reference of a sandbox in the root's run, unless the run has it. */
const record = ({ drive }: AgentRun, ref: SandboxRef): Effect.Effect<void, SandboxUnavailable> => {
  const { runtime, state } = drive
  if (sameJson(state.sandbox, ref)) return Effect.void
  // A stored reference has to attach again, so a secret in it cannot be removed.
  if (!sameJson(cleanJson(runtime.scrubber, ref), ref)) {
    const problem = "its reference holds a text that the scrubber takes for a secret"
    return Effect.fail(SandboxUnavailable.make({ backend: ref.backend, problem, retryable: false }))
  }
  // A callback that was abandoned may go on after the run.
  if (runtime.runs.has(drive) && !isEnded(state))
    emitRoot(drive, { _tag: "sandbox.opened", at: now(drive), sandbox: ref })
  return Effect.void
}

/** Forgets the sandbox of a run if the failure of a body says that it is lost. The next call attaches anew. */
export const dropIfLost = ({ drive }: AgentRun, cause: Cause.Cause<unknown>): void => {
  const { sandbox } = drive.state
  if (sandbox === undefined || !isLost(Cause.squash(cause))) return
  Effect.runForkWith(drive.context)(drive.runtime["~sandboxes"].drop(sandbox))
}

const isLost = (error: unknown): boolean =>
  typeof error === "object" && error !== null && "_tag" in error && error._tag === "SandboxLost"
