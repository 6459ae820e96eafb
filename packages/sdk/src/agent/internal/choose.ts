/**
 * Replaces the configuration of a live runtime: the new one is built first, then swapped in atomically.
 */
import * as Effect from "effect/Effect"
import type { ModelClient } from "../../model/ModelClient.ts"
import type { AnyServices } from "../../tool/Tool.ts"
import { requireOpen } from "../Runtime.ts"
import type { Choice, Runtime } from "../RuntimeDefinition.ts"
import { ReconfigureRefused, RuntimeBusy, type RuntimeClosed } from "../RuntimeError.ts"
import type { Configuration } from "../RuntimeHooks.ts"
import { configure, type ConfigureError, type Configured, describeConfiguration } from "./configuration.ts"
import { callHook } from "./userCode.ts"

/** Builds the configuration for a new choice and replaces the current one. */
export const choose = (
  runtime: Runtime,
  next: {
    readonly choice: (last: Choice) => Choice
    readonly model?: ModelClient["Service"]
    readonly services?: AnyServices
  }
): Effect.Effect<Configuration, ConfigureError | RuntimeBusy | RuntimeClosed | ReconfigureRefused> =>
  Effect.gen(function* () {
    yield* requireOpen(runtime)
    if (runtime.kind === "remote") return yield* new ReconfigureRefused({ reason: "remote" })
    const configured = yield* configure(
      {
        agent: runtime.agent,
        peers: runtime.options.peers,
        profiles: runtime.profiles,
        extensions: runtime.options.extensions ?? [],
        cancellation: runtime.cancellation,
        runtime: () => runtime
      },
      next.choice(runtime.choice),
      { model: next.model ?? runtime.model, services: next.services ?? runtime.services }
    )
    yield* requireOpen(runtime)
    return yield* swap(runtime, configured)
  }).pipe(runtime["~changing"].withPermit)

/** Checks and replaces synchronously, so that no turn begins in between. */
const swap = (runtime: Runtime, configured: Configured): Effect.Effect<Configuration, RuntimeBusy> =>
  Effect.withFiber(({ context }) => {
    const busy = [...runtime.runs].filter((run) => run.isMidTurn())
    if (busy.length > 0) return Effect.fail(new RuntimeBusy({ runs: busy.map(({ runId }) => runId) }))
    const before = describeConfiguration(runtime)
    Object.assign(runtime, configured)
    const after = describeConfiguration(runtime)
    callHook(runtime, context)("onReconfigured", runtime.options.hooks?.onReconfigured, { before, after })
    return Effect.succeed(after)
  })
