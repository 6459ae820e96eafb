/**
 * The background runs of a Fermata: `dispatch`, `attach` and `conductor`.
 */
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Scope from "effect/Scope"
import { checkOptions } from "../../agent/internal/soundOptions.ts"
import type { Runtime } from "../../agent/Runtime.ts"
import type { RunUpdate } from "../../agent/RunUpdate.ts"
import type { AgentHandle } from "../../dispatch/AgentHandle.ts"
import * as Conductor from "../../dispatch/Conductor.ts"
import { dispatchPrompt } from "../../dispatch/dispatchPrompt.ts"
import { attach, dispatchPromptStored } from "../../dispatch/dispatchPromptStored.ts"
import { DrainTimeout } from "../../dispatch/internal/HandleGroup.ts"
import { conductorShape } from "../../dispatch/internal/shapes.ts"
import type { RunId } from "../../domain/Id.ts"
import { withoutUndefined } from "../../domain/internal/untyped.ts"
import type { StoredRunOptions } from "../../durable/storedInput.ts"
import type { Prompt } from "../../run/Mail.ts"
import type { RunStore } from "../../store/RunStore.ts"
import {
  fromConductor,
  fromHandle,
  type FermataAccess,
  runWhileClosing,
  type RunConductor,
  type RunHandle
} from "../RunHandle.ts"
import type { Agents } from "./bindAgents.ts"
import { startOf } from "./inputs.ts"
import type { AttachOptions, BackgroundOptions, PromptOptions } from "./options.ts"
import { attachShape, conductedShape, requireKnown } from "./shapes.ts"

/** The parts of a Fermata that background runs need. */
interface BackgroundAccess extends FermataAccess {
  readonly run: <A, E>(effect: Effect.Effect<A, E, RunStore>) => Promise<A>
  readonly drainTimeout: Duration.Input
  /** Whether the runs are stored. */
  readonly isStored: boolean
  readonly agents: Agents
  readonly runOptions: (given: PromptOptions) => Required<Pick<StoredRunOptions, "cancellation" | "onUpdate">>
  readonly publishing: () => (update: RunUpdate) => void
}

/** Makes the methods for background runs, and the function that closes these runs: suspends or cancels each. */
export const makeBackground = (access: BackgroundAccess) => {
  const { agents, drainTimeout, isStored, publishing, run, runOptions } = access
  const scope = Scope.makeUnsafe()
  const inScope = <A, E, R>(effect: Effect.Effect<A, E, R | Scope.Scope>, of: Scope.Scope = scope) =>
    Effect.provideService(Effect.provideService(effect, Scope.Scope, of), DrainTimeout, drainTimeout)
  const named = (name: string | undefined) => (name === undefined ? {} : { name })

  const dispatch = async <Output>(
    runtime: Runtime<Output>,
    prompt: Prompt,
    given: BackgroundOptions = {}
  ): Promise<RunHandle<Output>> => {
    const { cancellation, onUpdate } = runOptions(given)
    const options = {
      cancellation,
      onUpdate,
      ...named(given.name),
      ...withoutUndefined({ restart: given.restart })
    }
    const input = startOf(prompt, given)
    const dispatching: Effect.Effect<AgentHandle<Output, unknown>, unknown, RunStore | Scope.Scope> = isStored
      ? dispatchPromptStored(runtime, input, { ...options, ...withoutUndefined({ onClose: given.onClose }) })
      : dispatchPrompt(runtime, input, options)
    return fromHandle(await run(inScope(dispatching)), access)
  }

  const conductor = async (given?: Conductor.ConductorOptions): Promise<RunConductor> => {
    requireKnown("conductor", given, conductorShape)
    await run(checkOptions(given, { concurrency: "number", maxQueued: "number", drainTimeout: "duration" }))
    const own = Scope.forkUnsafe(scope)
    // A conductor lets running operations finish for half of its timeout. Doubled, that is as long as everything else has.
    const ownDrain = Duration.times(Duration.fromInputUnsafe(drainTimeout), 2)
    const made = await run(inScope(Conductor.make({ drainTimeout: ownDrain, ...given }), own))
    const start: RunConductor["dispatch"] = async (agent, prompt, options = {}) => {
      requireKnown("dispatch", options, conductedShape)
      const { name, ...given } = options
      const start = isStored ? made.dispatchStored : made.dispatch
      const watch = { onUpdate: publishing(), ...named(name) }
      const handle = await run(start(agents.of(agent), startOf(prompt, given), watch))
      return fromHandle(handle, access)
    }
    const adopt = async () => {
      if (!isStored) return []
      const adopted = await run(made.adopt(agents.all, { onUpdate: publishing() }))
      return adopted.map((handle) => fromHandle(handle, access))
    }
    const close = () => runWhileClosing(Scope.close(own, Exit.void))
    return fromConductor({ conductor: made, access, dispatch: start, adopt, close })
  }

  return {
    dispatch,
    attach: async <Output>(runId: string, given: AttachOptions<Output> = {}): Promise<RunHandle<Output>> => {
      requireKnown("attach", given, attachShape)
      const { onClose, restart } = given
      const options = {
        ...agents.given(given),
        ...withoutUndefined({ onClose, restart }),
        onUpdate: publishing()
      }
      return fromHandle(await run(inScope(attach(agents.all, runId as RunId, options))), access)
    },
    conductor,
    close: () => runWhileClosing(Scope.close(scope, Exit.void))
  }
}
