/**
 * The configuration of a runtime, built from a choice in the same way when it is created and when it is reconfigured.
 */
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import { knowCredential } from "../../model/internal/knownSecrets.ts"
import type { ModelClient } from "../../model/ModelClient.ts"
import type { AnyServices } from "../../tool/Tool.ts"
import type { Any } from "../AgentDefinition.ts"
import { buildRuntimeRegistry, type RegistryError } from "../buildRuntimeRegistry.ts"
import type { CancellationToken } from "../Cancellation.ts"
import { type CapabilityProfile, everything } from "../CapabilityProfile.ts"
import type { BoundAgent } from "../Entry.ts"
import type { AnyExtension, Choice, Runtime, RuntimeContext } from "../RuntimeDefinition.ts"
import { CapabilityProfileNotFound, ModelProfileNotFound } from "../RuntimeError.ts"
import type { Configuration } from "../RuntimeHooks.ts"
import { attemptEffect } from "./userCode.ts"

type Client = ModelClient["Service"]

/** The part of a runtime that follows from a choice and may change between turns. */
export interface Configured {
  readonly choice: Choice
  readonly bound: BoundAgent
  readonly model: Client
  readonly services: AnyServices
  readonly profileName: string
  readonly mode: string
}

/** The errors of {@link configure}. */
export type ConfigureError = CapabilityProfileNotFound | ModelProfileNotFound | RegistryError

/** The part of a runtime that a choice does not change. */
interface Fixed {
  readonly agent: Any
  readonly peers?: ReadonlyArray<string> | undefined
  readonly profiles: ReadonlyMap<string, CapabilityProfile>
  readonly extensions: ReadonlyArray<AnyExtension>
  readonly cancellation: CancellationToken
  readonly runtime: () => Runtime
}

/** Builds a configuration from a choice. Its only side effect is that the scrubbers know the secrets of its model. */
export const configure = Effect.fnUntraced(function* (
  { agent, cancellation, extensions, peers, profiles, runtime }: Fixed,
  choice: Choice,
  { model, services }: { readonly model: Client; readonly services: AnyServices }
): Effect.fn.Return<Configured, ConfigureError> {
  const profile = profiles.get(choice.profile)
  if (profile === undefined) {
    return yield* new CapabilityProfileNotFound({ profile: choice.profile, known: [...profiles.keys()] })
  }
  const asked = choice.model ?? profile.model
  const known = profilesOf(model)
  if (asked !== undefined && known !== undefined && !known.includes(asked)) {
    return yield* new ModelProfileNotFound({ profile: asked, known })
  }
  yield* knowSecretsOf(model)
  const mode = choice.mode ?? profile.mode ?? profile.name
  const context: RuntimeContext = { agent, profile, mode, services, cancellation, runtime }
  const bound = yield* buildRuntimeRegistry(
    agent,
    asked === undefined ? profile : { ...profile, model: asked },
    extensions,
    {
      context,
      ...(peers === undefined ? {} : { peers }),
      ...(choice.tools === undefined ? {} : { tools: choice.tools })
    }
  )
  return { choice, bound, model, services, profileName: profile.name, mode }
})

/**
 * Makes the scrubbers know the credentials of a client before a run has written a text. A client that fails to name them has none. One that
 * asks a server for a token is waited for a moment: a login that cannot be reached must not keep the program from starting.
 */
const knowSecretsOf = ({ secrets }: Client): Effect.Effect<void> => {
  if (secrets === undefined) return Effect.void
  const learning = Effect.map(
    attemptEffect(() => secrets),
    (all) => {
      for (const secret of all) knowCredential("api-key", secret)
    }
  )
  return Effect.flatMap(
    Effect.forkDetach(Effect.ignoreCause(learning), { startImmediately: true, uninterruptible: false }),
    (fiber) => Effect.asVoid(Effect.timeoutOption(Fiber.await(fiber), "2 seconds"))
  )
}

/** The context of the extensions of a runtime, with its current profile and mode. */
export const contextOf = (runtime: Runtime): RuntimeContext => {
  const { agent, cancellation, mode, profileName, profiles, services } = runtime
  const profile = profiles.get(profileName) ?? everything
  return { agent, profile, mode, services, cancellation, runtime: () => runtime }
}

/** The names of a client's model profiles; `undefined` if it does not list them, as a router does. */
const profilesOf = (client: Client): ReadonlyArray<string> | undefined =>
  "profiles" in client && Array.isArray(client.profiles) ? (client.profiles as Array<string>) : undefined

/** The configuration as data, for hooks and for the result of a reconfiguration. */
export const describeConfiguration = ({
  bound,
  mode,
  profileName
}: Pick<Configured, "bound" | "mode" | "profileName">): Configuration => {
  const model = bound.agent.options.profile
  return {
    profile: profileName,
    mode,
    ...(model === undefined ? {} : { model }),
    tools: bound.definitions.map(({ name }) => name)
  }
}
