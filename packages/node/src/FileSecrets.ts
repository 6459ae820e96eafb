/**
 * Takes secrets from a file that only its owner can read: a JSON object of texts, or lines `NAME=value` as in a `.env` file.
 *
 * The file is read when a call needs a secret, so a change counts from the next call on.
 *
 * @since 0.2.0
 */
import { open } from "node:fs/promises"
import { resolve } from "node:path"
import { parseEnv } from "node:util"
import { Display, OptionsInvalid, Secrets, TaggedError } from "@fermata/sdk"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"

/** A source of `FileSecrets.make` cannot use its file. The body of the call that needs a secret does not start; the log has the error. */
export class FileSecretsError extends TaggedError.TaggedError<FileSecretsError>()("FileSecretsError", {
  path: Schema.String,
  /** `unreadable`: the system's code is in `detail`. `shared`: others can read or change it. `malformed`: it is no JSON object of texts. */
  reason: Schema.Literals(["unreadable", "shared", "malformed"]),
  /** The code of the system's error, such as `ENOENT`, or the mode of the file. */
  detail: Schema.optionalKey(Schema.String)
}) {
  override get message() {
    const file = Display.sentence`The file of secrets ${this.path}`
    if (this.reason === "unreadable")
      return Display.sentence`${file} cannot be read (${this.detail ?? "unknown error"}): check its path and permissions.`
    return this.reason === "shared"
      ? Display.sentence`${file} can be read or changed by other users (mode ${this.detail ?? ""}): set its mode to 600, or the option "shared".`
      : `${file} is no JSON object whose values are texts.`
  }
}

/** Options of {@link make}. */
export interface Options {
  /** The format. Default: `json` for a name that ends in `.json`, and otherwise `env`. */
  readonly format?: "json" | "env"
  /**
   * Whether other users of the machine may read the file, as in a container whose orchestrator mounts it so. Default: `false`; the file needs
   * a mode such as 600. Windows has no modes.
   */
  readonly shared?: boolean
}

const decode = Schema.decodeUnknownEffect(Schema.fromJsonString(Schema.Record(Schema.String, Schema.String)))

/**
 * Makes a source that takes secrets from this file, which it reads whenever a call needs a secret. A relative path is resolved now. The
 * names of the secrets are those in the file, such as `GITHUB_TOKEN` for `secret://GITHUB_TOKEN`; a JSON file can have others, such as
 * `db/password`.
 *
 * **Example** (A file beside the program)
 *
 * ```ts run
 * import { agent, createFermata, FileSecrets } from "@fermata/node"
 * import { ScriptedModel } from "@fermata/node/testing"
 *
 * const model = ScriptedModel.make(["done"]).client
 * const secrets = FileSecrets.make("secrets.json")
 * await using fermata = await createFermata({ agents: [agent("ops")], model, secrets, store: false })
 * ```
 *
 * **Errors**
 *
 * Throws `OptionsInvalid` for an unknown option and for a wrong value. Calls that need a secret fail if the file cannot be read or parsed,
 * or if other users can read it and the option `shared` is not set; the log has the `FileSecretsError`.
 *
 * @category constructors
 * @since 0.2.0
 */
export const make = (filename: string, options: Options = {}): Secrets.Secrets => {
  const problem = OptionsInvalid.problemOf("FileSecrets.make", { filename, ...options }, shape)
  if (problem !== undefined) throw problem
  // A later change of the working directory must not lead to another file.
  const path = resolve(filename)
  const { format = path.endsWith(".json") ? "json" : "env", shared = false } = options
  return Secrets.make((name) =>
    Effect.gen(function* () {
      const { mode, text } = yield* readWithMode(path)
      if (!shared && process.platform !== "win32" && (mode & 0o077) !== 0)
        return yield* new FileSecretsError({ path, reason: "shared", detail: (mode & 0o777).toString(8) })
      const values =
        format === "env"
          ? parseEnv(text)
          : yield* Effect.mapError(decode(text), () => new FileSecretsError({ path, reason: "malformed" }))
      return Object.hasOwn(values, name) ? values[name] : undefined
    })
  )
}

/**
 * Provides secrets from a file. See {@link make}.
 *
 * @category layers
 * @since 0.2.0
 */
export const layer = (filename: string, options?: Options): Layer.Layer<never> =>
  Layer.sync(Secrets.Secrets, () => make(filename, options))

const shape: OptionsInvalid.Shape = {
  keys: {
    filename: { takes: "the path of a file", is: (value) => typeof value === "string" && value !== "" },
    format: { takes: '"json" or "env"', is: (value) => value === "json" || value === "env" },
    shared: { takes: "true or false", is: (value) => typeof value === "boolean" }
  }
}

/** Reads a file, and the mode of that same file. */
const readWithMode = (path: string) =>
  Effect.tryPromise({
    try: async () => {
      const file = await open(path, "r")
      try {
        return { mode: (await file.stat()).mode, text: await file.readFile("utf8") }
      } finally {
        await file.close()
      }
    },
    catch: (cause) => new FileSecretsError({ path, reason: "unreadable", ...codeOf(cause) })
  })

const codeOf = (cause: unknown): { readonly detail?: string } =>
  cause instanceof Error && "code" in cause && typeof cause.code === "string" ? { detail: cause.code } : {}
