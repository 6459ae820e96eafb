/**
 * Secrets by reference: a model writes `secret://name` in the arguments of a call, and only the body of the tool receives the value.
 *
 * The model, the journal, approval requests with their digests and previews, events, logs and spans have the reference. A tool states the
 * names that its calls may use; see `secrets` of `ToolOptions`. A value is read right before the body starts, for each try anew, and is
 * never stored. From then on, scrubbers remove it from the texts of the process's runs, also in the encodings that `ScrubberOptions` lists,
 * and show it as `[REDACTED:name]`.
 *
 * This service provides the values: from the environment, a file, a function such as the client of a vault, or several of these.
 *
 * @since 0.2.0
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import type * as Schema from "effect/Schema"
import type * as Scope from "effect/Scope"
import { callable, shapeOf } from "../domain/internal/misfits.ts"
import { problemOf } from "../domain/OptionsInvalid.ts"
import type { RunContext } from "../domain/RunContext.ts"
import { know } from "../model/internal/knownSecrets.ts"
import type { Awaitable } from "./ToolOptions.ts"

/** The value of a secret; `undefined` if the source has none under the name, or none for the call. */
export type SecretValue = string | Redacted.Redacted<string> | undefined

/** The call that needs a secret. */
export interface SecretUse {
  /** The tool's own name. */
  readonly tool: string
  /** The decoded arguments of the call, with references. */
  readonly arguments: Schema.Json
  readonly runId: string
  readonly sessionId: string
  readonly callId: string
  /** The names of the agents from the root to the agent that made the call. */
  readonly agentPath: ReadonlyArray<string>
  /** The context of the run, which its caller gave: for example, its tenant. */
  readonly context: RunContext
}

/**
 * A source of secrets.
 *
 * @category models
 * @since 0.2.0
 */
export interface Secrets {
  /**
   * Returns the value of a secret for a call. It has the timeout of the call's body, and may be asked again for each try. A failure is
   * treated as a missing secret, and the model learns nothing more: the call fails, is asked about again if its arguments were edited, or
   * is in doubt if it may have run. A value under 6 characters is refused, since it may be a part of words.
   */
  readonly get: (name: string, use: SecretUse) => Awaitable<SecretValue>
}

/**
 * Makes a source of secrets from a function, such as the client of a vault.
 *
 * **Example** (Secrets of the tenant)
 *
 * ```ts run
 * import { Secrets } from "@fermata/sdk"
 *
 * const vault = { read: async (path: string) => (path === "acme/github" ? "a8Kf03jQmZ19xTbWv72L" : undefined) }
 * const secrets = Secrets.make((name, { context }) => vault.read(`${String(context["tenant"])}/${name}`))
 * ```
 *
 * **Errors**
 *
 * Throws `OptionsInvalid` for a value that is not a function.
 *
 * @category constructors
 * @since 0.2.0
 */
export const make = (get: Secrets["get"]): Secrets => {
  const problem = problemOf("Secrets.make", { get }, shapeOf<Secrets>({ get: callable }))
  if (problem !== undefined) throw problem
  return { get }
}

/**
 * The secrets that can be read and their environment variables: a list of names, each of a secret and of its variable; or an object with
 * the variable of each secret. No other variable can be read.
 */
export type Variables = ReadonlyArray<string> | Readonly<Record<string, string>>

/**
 * Takes secrets from the environment: from the variables of these names, and no others. They are read when a call needs them, from the
 * `ConfigProvider` of the program, which by default reads the environment of the process. An empty variable counts as missing.
 *
 * **Example** (Two variables)
 *
 * ```ts run
 * import { Secrets } from "@fermata/sdk"
 *
 * const secrets = Secrets.environment({ "github-token": "GITHUB_TOKEN", "db/password": "DB_PASSWORD" })
 * ```
 *
 * @category constructors
 * @since 0.2.0
 */
export const environment = (variables: Variables): Secrets => {
  const names: ReadonlyMap<string, string> = new Map(
    Array.isArray(variables)
      ? variables.map((name: string) => [name, name] as const)
      : Object.entries(variables)
  )
  return make((name) => {
    const variable = names.get(name)
    if (variable === undefined) return undefined
    return Effect.flatMap(
      // Loaded here, because loading it takes a while and few programs need it.
      Effect.promise(() => import("effect/Config")),
      (Config) => Effect.map(Config.option(Config.Redacted(variable)), Option.getOrUndefined)
    )
  })
}

/**
 * Takes secrets from an object in memory, for tests and for programs that have read them already.
 *
 * @category constructors
 * @since 0.2.0
 */
export const memory = (values: Readonly<Record<string, string | Redacted.Redacted<string>>>): Secrets => {
  const known = new Map(Object.entries(values))
  return make((name) => known.get(name))
}

/**
 * Makes a source that asks several sources in this order, until one has the secret. A source that fails ends the search and fails it,
 * because the next one might have an older value.
 *
 * @category constructors
 * @since 0.2.0
 */
export const firstOf = (...sources: ReadonlyArray<Secrets>): Secrets =>
  make((name, use) =>
    Effect.gen(function* () {
      for (const source of sources) {
        const value = yield* read(source, name, use)
        if (value !== undefined) return value
      }
      return undefined
    })
  )

/**
 * Reads a secret: its value, unchanged, or `undefined` if the source has none or a blank one. Fails as the source does; dies if the source
 * throws or its value is no text.
 */
export const read = (
  source: Secrets,
  name: string,
  use: SecretUse
): Effect.Effect<string | undefined, unknown, Scope.Scope> =>
  Effect.gen(function* () {
    const got: unknown = source.get(name, use)
    const given: unknown = Effect.isEffect(got)
      ? yield* got as Effect.Effect<unknown, unknown, Scope.Scope>
      : yield* Effect.tryPromise(async () => got)
    const value: unknown = Redacted.isRedacted(given) ? Redacted.value(given) : given
    if (value === undefined || value === null) return undefined
    if (typeof value !== "string") throw new TypeError("the source of the secret returned no text")
    return value.trim() === "" ? undefined : value
  })

/**
 * Adds a secret to those that the runs of this process remove, with any scrubber and in the encodings that `ScrubberOptions` lists; they
 * show it as `[REDACTED:name]`. Use it for a token that a tool obtains by itself. Texts under 6 characters are ignored. A process knows the
 * last 10,000 secrets.
 *
 * @since 0.2.0
 */
export const remember = (name: string, value: string | Redacted.Redacted<string>): void => know(name, value)

/** No source: a call that refers to a secret waits for a process that has a source. */
export const none: Secrets = { get: () => undefined }

/**
 * The source of secrets of the Effect context. Default: {@link none}. A runtime takes it when it is made.
 *
 * @category services
 * @since 0.2.0
 */
export const Secrets = Context.Reference<Secrets>("@fermata/sdk/tool/Secrets", { defaultValue: () => none })

/**
 * Provides secrets from a function whose effect may need services.
 *
 * @category layers
 * @since 0.2.0
 */
export const layer = <E, R>(
  get: (name: string, use: SecretUse) => Effect.Effect<SecretValue, E, R>
): Layer.Layer<never, never, Exclude<R, Scope.Scope>> =>
  Layer.effect(
    Secrets,
    Effect.map(Effect.context<Exclude<R, Scope.Scope>>(), (services) =>
      make((name, use) =>
        Effect.provideContext(get(name, use) as Effect.Effect<SecretValue, E, Scope.Scope>, services)
      )
    )
  )

/**
 * Provides secrets from the environment. See {@link environment}.
 *
 * @category layers
 * @since 0.2.0
 */
export const layerEnvironment = (variables: Variables): Layer.Layer<never> =>
  Layer.succeed(Secrets, environment(variables))

/**
 * Provides secrets from an object. See {@link memory}.
 *
 * @category layers
 * @since 0.2.0
 */
export const layerMemory = (values: Parameters<typeof memory>[0]): Layer.Layer<never> =>
  Layer.succeed(Secrets, memory(values))
