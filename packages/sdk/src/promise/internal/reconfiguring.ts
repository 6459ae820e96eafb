/**
 * Changes the agents and settings of a running Fermata.
 */
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Scope from "effect/Scope"
import * as Semaphore from "effect/Semaphore"
import { answersTo } from "../../agent/BoundAgent.ts"
import { everything } from "../../agent/CapabilityProfile.ts"
import { chooseAll, type Next, nextOf } from "../../agent/internal/choose.ts"
import type { Choice, Runtime } from "../../agent/Runtime.ts"
import type { Configuration } from "../../agent/RuntimeHooks.ts"
import { withoutUndefined } from "../../domain/internal/untyped.ts"
import { AgentNotFound } from "../../domain/RunError.ts"
import { ModelClient } from "../../model/ModelClient.ts"
import { type Agents, createRuntimes, nameOf, requireDistinct, type SharedOptions } from "./bindAgents.ts"
import type { FermataChange } from "./options.ts"
import { reconfigureShape, requireKnown } from "./shapes.ts"
import { holdTools } from "./toolResources.ts"

/** The parts of a Fermata that `reconfigure` needs. */
interface Reconfigured {
  readonly agents: Agents
  readonly options: SharedOptions
  /** Closes the runtimes of agents that are added. */
  readonly scope: Scope.Scope
  readonly run: <A, E>(effect: Effect.Effect<A, E, ModelClient>) => Promise<A>
}

/**
 * Makes `reconfigure`. The runtimes of later agents begin with the profile, mode and model that were last given for all agents, at first those
 * of the options. Tools that were given for all agents do not apply to them.
 */
export const makeReconfigure = ({ agents, options, run, scope }: Reconfigured) => {
  const changing = Semaphore.makeUnsafe(1)
  const profiles = new Map(
    [everything, ...(options.profiles ?? [])].map((profile) => [profile.name, profile])
  )
  let shared: Choice = {
    profile: options.profile ?? everything.name,
    ...withoutUndefined({ mode: options.mode, model: options.model })
  }
  let sharedModel: ModelClient["Service"] | undefined

  const change = Effect.fnUntraced(function* (given: FermataChange, own: Scope.Scope) {
    const { agent, agents: definitions = agents.all.map((runtime) => runtime.agent), model } = given
    const names = definitions.map(({ name }) => name)
    const find = (known: ReadonlyArray<Runtime>, definition: Runtime["agent"]) =>
      known.find((runtime) => runtime.agent === definition)
    const added = (given.agents ?? []).filter((definition) => find(agents.all, definition) === undefined)
    const creating = createRuntimes(added, { ...options, ...shared }, definitions)
    const created = yield* Scope.provide(
      sharedModel === undefined ? creating : Effect.provideService(creating, ModelClient, sharedModel),
      own
    )
    const all = definitions.map((definition) => find([...agents.all, ...created], definition)!)
    const isMeant = ({ agent: definition }: Runtime) =>
      agent === undefined || (typeof agent === "string" ? answersTo(definition, agent) : definition === agent)
    const next = {
      ...nextOf(profiles, { ...given, model: given.modelProfile ?? model }),
      ...withoutUndefined({ model })
    }
    const peers: Next = given.agents === undefined ? {} : { peers: names }
    const targets = all.filter(isMeant)
    if (agent !== undefined && targets.length === 0) {
      const name = typeof agent === "string" ? agent : nameOf(agent, names)
      return yield* new AgentNotFound({ agent: name, known: names })
    }
    const isSettled = [given.profile, given.mode, given.tools, model, given.modelProfile].every(
      (setting) => setting === undefined
    )
    for (const { name } of targets.map((runtime) => runtime.agent)) {
      yield* Scope.provide(holdTools(name, given.tools ?? []), own)
    }
    const configurations = yield* chooseAll(
      all.map((runtime) => [runtime, { ...peers, ...(!isSettled && targets.includes(runtime) ? next : {}) }])
    )
    if (agent === undefined) {
      const { tools: _, ...choice } = next.choice(shared)
      shared = choice
      sharedModel = model ?? sharedModel
    }
    agents.replace(all)
    return Object.fromEntries(names.map((name, index) => [name, configurations[index]!]))
  })

  return async (given: FermataChange): Promise<Readonly<Record<string, Configuration>>> => {
    requireKnown("reconfigure", given ?? null, reconfigureShape)
    if (given.agents !== undefined) requireDistinct(given.agents)
    return run(
      changing.withPermit(
        Effect.acquireUseRelease(
          Scope.fork(scope),
          (own) => change(given, own),
          // The runtimes of a change that was refused are closed. The others are closed with the Fermata.
          (own, exit) => (Exit.isFailure(exit) ? Scope.close(own, exit) : Effect.void)
        )
      )
    )
  }
}
