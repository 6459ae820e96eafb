/**
 * Makes a Fermata with defaults for Node programs: a SQLite file for the runs, and a scrubber that also removes the secrets of the
 * environment and hides the home directory.
 *
 * @since 0.1.0
 */
import { homedir } from "node:os"
import { Fermata, type RunStore, type RunStoreError, Scrubber, Storeless, type WebAccess } from "@fermata/sdk"
import { OptionsInvalid } from "@fermata/sdk/domain"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as SqliteStore from "./SqliteStore.ts"

/** Options of `createFermata`: those of `Fermata.make`, with defaults for Node for `store` and `scrubber`. */
export interface CreateFermataOptions extends Omit<Fermata.FermataOptions, "store"> {
  /**
   * The path of a SQLite file in an existing folder, `:memory:` for a SQLite database that ends with the Fermata and is shared with no other
   * one, the URL of a Postgres database (`postgres://…` or `postgresql://…`), or any layer with a `RunStore`, such as `SqliteStore.layer`
   * with options. Default, also for `undefined` (such as a variable of the environment that is not set): `fermata.db` in the working
   * directory. A missing file is created.
   */
  readonly store?: string | Layer.Layer<RunStore.RunStore, RunStoreError.RunStoreError> | undefined
}

/** Options of `createFermata` for a Fermata without a store. */
export interface CreateStorelessOptions extends Storeless.StorelessOptions {
  /** Stores nothing: runs are in the memory of the process. To continue a held run later, the program keeps the state in its result. */
  readonly store: false
}

/**
 * Makes a Fermata. Declare it with `await using`, or close it when the program no longer needs it. Without the option `store`, its runs are
 * in the SQLite file `fermata.db` of the working directory. With `store: false`, it has only the methods that need no store; see
 * `Storeless`.
 *
 * **Details**
 *
 * Without the option `scrubber`, the scrubber removes the values of environment variables whose names name a secret (not those under 8
 * characters, ordinary words and others that do not look like a secret; see `Scrubber.secretsIn`), and texts with a known form of credential, from the texts that runs write, and replaces the home directory by `~` in the output of tools. A scrubber in the
 * options replaces it, with all of these tasks. Without the option `web`, tools that use `context.http` have a guarded client with the
 * defaults of `WebClient`.
 *
 * **Example** (A run that is held)
 *
 * ```ts run
 * import { agent, createFermata, tool } from "@fermata/node"
 * import { ScriptedModel } from "@fermata/node/testing"
 *
 * const model = ScriptedModel.make([{ calls: [{ tool: "deploy" }] }, "It is live."]).client
 * const deploy = tool("deploy", { handler: () => "deployed" })
 * await using fermata = await createFermata({ agents: [agent("ops", { tools: [deploy] })], model })
 * const run = await fermata.runPrompt("ops", "Deploy to production")
 * if (run.status === "interrupted") console.log(run.runId, run.interruptions)
 * ```
 *
 * **Errors**
 *
 * Rejects with the errors of `Fermata.make`: for example with `OptionsInvalid` for an unknown option, with `RunStoreError` when the store
 * cannot be opened, and with `AgentDefinitionError` when an agent's definition cannot work.
 *
 * @category constructors
 * @since 0.1.0
 */
export const createFermata: {
  (options: CreateStorelessOptions): Promise<Storeless.Storeless>
  (options: CreateFermataOptions): Promise<Fermata.Fermata>
} = async (options: CreateFermataOptions | CreateStorelessOptions): Promise<any> => {
  // Refused as it was given.
  if (typeof options !== "object" || options === null) return Fermata.make(options)
  const {
    scrubber = Scrubber.make({
      secrets: Scrubber.secretsIn(process.env),
      paths: [{ path: homedir(), show: "~" }]
    }),
    store = "fermata.db",
    web = guardedWeb,
    ...rest
  } = options
  if (store === false) return Storeless.make({ ...rest, scrubber, web })
  const problem = OptionsInvalid.problemOf("createFermata", { store }, storeShape)
  if (problem !== undefined) throw problem
  return Fermata.make({ ...rest, scrubber, web, store: typeof store === "string" ? layerOf(store) : store })
}

/** The guarded client with its defaults, loaded by the first tool that uses it. */
const guardedWeb: WebAccess.Shape = Effect.flatMap(
  Effect.promise(() => import("./guard/WebClient.ts")),
  ({ make }) => Effect.orDie(make())
)

const storeShape: OptionsInvalid.Shape = {
  keys: {
    store: {
      takes:
        'the name of a SQLite file, ":memory:", the URL of a Postgres database, a layer with a RunStore, or false',
      is: (value) => Layer.isLayer(value) || (typeof value === "string" && !isForeign(value)),
      among: ["string"]
    }
  }
}

/** Whether a text is the URL of a database that is not Postgres. */
const isForeign = (store: string) => /^[a-z][a-z\d+.-]*:\/\//i.test(store) && !isPostgres(store)

const isPostgres = (store: string) => /^postgres(ql)?:/i.test(store)

const layerOf = (store: string): Layer.Layer<RunStore.RunStore, RunStoreError.RunStoreError> => {
  if (isPostgres(store)) return layerPostgres(store)
  return SqliteStore.layer({ filename: store })
}

/** The driver is loaded when the store is opened. */
const layerPostgres = (url: string) =>
  Layer.unwrap(
    Effect.map(
      Effect.promise(() => import("./PostgresStore.ts")),
      ({ layer }) => layer({ url })
    )
  )
