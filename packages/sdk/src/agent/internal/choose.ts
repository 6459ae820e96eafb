/**
 * Replaces the configuration of a live runtime: the new one is built first, then swapped in atomically.
 */
import * as Effect from "effect/Effect"
import { withoutUndefined } from "../../domain/internal/untyped.ts"
import type { ModelClient } from "../../model/ModelClient.ts"
import type { AnyServices } from "../../tool/Tool.ts"
import { requireOpen } from "../Runtime.ts"
import type { Choice, Runtime } from "../RuntimeDefinition.ts"
import { ReconfigureRefused, RuntimeBusy, type RuntimeClosed } from "../RuntimeError.ts"
import type { Configuration } from "../RuntimeHooks.ts"
import { configure, type ConfigureError, type Configured, describeConfiguration } from "./configuration.ts"
import { providerOf } from "./Sandboxes.ts"
import { callHook } from "./userCode.ts"

type Client = ModelClient["Service"]

/** The change of one runtime. What is left out stays as it is. */
export interface Next {
  readonly choice?: (last: Choice) => Choice
  readonly model?: Client
  readonly services?: AnyServices
  /** The names of the program's other agents. A change of these alone is possible during a turn. */
  readonly peers?: ReadonlyArray<string>
}

/** Makes the change of a runtime with these profiles from its description; see `RuntimeChange`. */
export const nextOf = (
  profiles: Runtime["profiles"],
  change: {
    readonly profile?: string | undefined
    readonly mode?: string | undefined
    readonly model?: string | Client | undefined
    readonly tools?: Choice["tools"] | undefined
  }
): Next & Required<Pick<Next, "choice">> => {
  const { mode, model, profile, tools } = change
  return {
    choice: ({ mode: lastMode, model: lastModel, profile: lastProfile, tools: lastTools }) => {
      const named = profile === undefined ? undefined : profiles.get(profile)
      const chosenMode = mode ?? (profile === undefined ? lastMode : undefined)
      const isKept = model === undefined && named?.model === undefined
      const chosenModel = typeof model === "string" ? model : isKept ? lastModel : undefined
      const others = withoutUndefined({ mode: chosenMode, model: chosenModel, tools: tools ?? lastTools })
      return { profile: profile ?? lastProfile, ...others }
    },
    ...(typeof model === "object" ? { model } : {})
  }
}

/** The errors of {@link choose}. */
export type ChooseError = ConfigureError | RuntimeBusy | RuntimeClosed | ReconfigureRefused

/** Builds the configuration for a new choice and replaces the current one. */
export const choose = (runtime: Runtime, next: Next): Effect.Effect<Configuration, ChooseError> =>
  Effect.map(chooseAll([[runtime, next]]), ([after]) => after!)

/** Changes several runtimes atomically: if one cannot be changed, none is. Returns their configurations in the given order. */
export const chooseAll = (
  changes: ReadonlyArray<readonly [Runtime, Next]>
): Effect.Effect<ReadonlyArray<Configuration>, ChooseError> =>
  changes.reduceRight(
    (changing, [runtime]) => runtime["~changing"].withPermit(changing),
    Effect.gen(function* () {
      const runtimes = changes.map(([runtime]) => runtime)
      const requireAllOpen = Effect.forEach(runtimes, requireOpen, { discard: true })
      yield* requireAllOpen
      const configured = yield* Effect.forEach(changes, ([runtime, next]) => build(runtime, next))
      yield* requireAllOpen
      return yield* swap(configured)
    })
  )

/** A runtime with its new configuration and options. */
interface Built {
  readonly runtime: Runtime
  readonly configured: Configured & Pick<Runtime, "options">
  /** Whether it differs in nothing but the names of the other agents. */
  readonly isSame: boolean
}

const build = Effect.fnUntraced(function* (
  runtime: Runtime,
  next: Next
): Effect.fn.Return<Built, ChooseError> {
  const { peers = runtime.options.peers } = next
  const choice = next.choice?.(runtime.choice) ?? runtime.choice
  const { provider } = runtime["~sandboxes"]
  if (runtime.profiles.has(choice.profile) && providerOf(runtime.options, choice.profile) !== provider)
    return yield* new ReconfigureRefused({ reason: "sandbox", from: runtime.profileName, to: choice.profile })
  const configured = yield* configure(
    {
      agent: runtime.agent,
      peers,
      profiles: runtime.profiles,
      extensions: runtime.options.extensions ?? [],
      cancellation: runtime.cancellation,
      runtime: () => runtime
    },
    choice,
    { model: next.model ?? runtime.model, services: next.services ?? runtime.services }
  )
  const options = peers === undefined ? runtime.options : { ...runtime.options, peers }
  return { runtime, configured: { ...configured, options }, isSame: next.choice === undefined }
})

/** Checks and replaces synchronously, so that no turn begins in between. */
const swap = (built: ReadonlyArray<Built>): Effect.Effect<ReadonlyArray<Configuration>, RuntimeBusy> =>
  Effect.withFiber(({ context }) => {
    const busy = built.flatMap(({ isSame, runtime }) =>
      isSame ? [] : [...runtime.runs].filter((run) => run.isMidTurn())
    )
    if (busy.length > 0) return Effect.fail(new RuntimeBusy({ runs: busy.map(({ runId }) => runId) }))
    const changed = built.map(({ configured, isSame, runtime }) => {
      const before = describeConfiguration(runtime)
      Object.assign(runtime, configured)
      return { runtime, isSame, before, after: describeConfiguration(runtime) }
    })
    for (const { after, before, isSame, runtime } of changed) {
      if (isSame) continue
      callHook(runtime, context)("onReconfigured", runtime.options.hooks?.onReconfigured, { before, after })
    }
    return Effect.succeed(changed.map(({ after }) => after))
  })
