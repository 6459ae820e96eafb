/**
 * Removes secrets and host paths from the output of tools before it is journaled, published or shown to a model, and secrets from
 * all other texts that a run writes: prompts, responses, arguments, decisions and reasons.
 *
 * A secret is removed before the first write, and the run does not keep it either: a tool whose arguments contained a secret receives the
 * scrubbed arguments. A tool gets a secret by reference; see `Secrets`. The deltas of a response are scrubbed as they stream. Of a file,
 * the name, the address and a content that is a text are scrubbed. Images, other binary files and providers' payloads are not.
 *
 * The values of secrets that a scrubber is given are removed in the forms that programs write them in, and so are, with any scrubber, those
 * that the process uses: resolved references, keys of model clients, tokens of logins and credentials of MCP servers. This is a guarantee.
 * Recognition of other secrets is a best effort, in this order: private keys; credentials by their syntax (addresses, headers, flags, names
 * and values); tokens with a vendor's prefix; and, in the output of tools, random texts that stand alone. Hashes, digests, signatures, ids,
 * public keys and paths stay, because an agent works with them.
 *
 * @since 0.1.0
 */
import * as Context from "effect/Context"
import * as Redacted from "effect/Redacted"
import { demanded, flag, keysOf, type Kind, required, shapeOf, string } from "../domain/internal/misfits.ts"
import { problemOf } from "../domain/OptionsInvalid.ts"
import { shortestSecret } from "../model/internal/knownSecrets.ts"
import { scrubFields } from "./internal/scrub/JsonFields.ts"
import { kindOf } from "./internal/scrub/keys.ts"
import { formsOf, KnownValues } from "./internal/scrub/knownValues.ts"
import { processScrubber, withoutProcessSecrets } from "./internal/scrub/processSecrets.ts"
export { redactions } from "./internal/scrub/redactions.ts"
import { type Rules, scrubText, TextScrubber } from "./internal/scrub/scrubText.ts"
import { placeholder, typeOf } from "./internal/scrub/span.ts"
import { isSecret } from "./internal/scrub/values.ts"

/**
 * Removes secrets and host paths from texts. Provide your own as the service `Scrubber` or as an option of a Fermata.
 *
 * @category services
 * @since 0.1.0
 */
export interface Scrubber {
  /** Removes secrets and host paths from a tool's results, failures, progress and previews. */
  readonly scrub: (text: string) => string
  /** Removes only secrets, from all other texts of a run. Default: `scrub`. */
  readonly redact?: (text: string) => string
  /**
   * Removes from a JSON text the secrets that the names of its fields show, and nothing else. Its strings are passed to `redact` one by one
   * afterwards. Default: changes nothing.
   */
  readonly redactFields?: (json: string) => string
  /** Removes secrets and host paths from an output that a tool streams. Default: `scrub` for each chunk, which misses a secret in two. */
  readonly stream?: () => ScrubStream
  /** Removes only secrets from a text that a model streams. Default: `redact` for the complete words of each chunk. */
  readonly redactStream?: () => ScrubStream
}

/** A text that is scrubbed while it is received. */
export interface ScrubStream {
  /**
   * Takes a further chunk, and returns the scrubbed text that no later chunk can change. The rest is held back: at most the incomplete
   * sentence or line, up to 65,536 characters, the lines of a private key, and the first four or more characters of a known secret, which may
   * continue in the next line.
   */
  readonly push: (chunk: string) => string
  /** Ends the text, and returns the scrubbed rest that was held back. */
  readonly end: () => string
}

/** Options of {@link make}: the secrets and paths to remove, and whether the scrubber also recognizes others. */
export interface ScrubberOptions {
  /**
   * Secrets to remove by value, also as JSON, base64, hex, in an address, and escaped for HTML, XML, a shell, SQL or CSV. Values under 6
   * characters are ignored. The values of an object are shown by the name of their field.
   */
  readonly secrets?:
    | Iterable<string | Redacted.Redacted<string>>
    | Readonly<Record<string, string | Redacted.Redacted<string>>>
  /**
   * Paths of the host to replace in the output of tools, such as a home directory by `~`. A path is replaced with everything below it, not
   * in a longer name. A path of one character is ignored.
   */
  readonly paths?: ReadonlyArray<{ readonly path: string; readonly show: string }>
  /** Whether secrets are also recognized by their form or their name, such as tokens with a vendor's prefix. Default: `true`. */
  readonly recognize?: boolean
}

const listOrRecord: Kind = {
  takes: "a list of secrets, or an object with a secret in each field",
  is: (value) => typeof value === "object" && value !== null
}

const shape = shapeOf<ScrubberOptions>({
  secrets: listOrRecord,
  paths: { each: demanded(keysOf([], { path: required(string), show: required(string) })) },
  recognize: flag
})

/**
 * Makes a scrubber that removes these secrets, these paths and, unless `recognize` is `false`, every text that is recognized as a
 * credential. A removed secret is shown as `[REDACTED:type]`, such as `[REDACTED:password]`, so that a model knows what is missing.
 *
 * **Errors**
 *
 * Throws `OptionsInvalid` for an unknown option and for a value of the wrong type, such as `secrets` that are a single text. A secret in
 * them that is not a string is ignored, as is one under 6 characters.
 *
 * ```ts run
 * import { Scrubber } from "@fermata/sdk"
 *
 * const scrubber = Scrubber.make({
 *   secrets: { DB_PASSWORD: "correct horse battery" },
 *   paths: [{ path: "/srv/app", show: "~" }]
 * })
 * scrubber.scrub("/srv/app/db: correct horse battery") // "~/db: [REDACTED:db-password]"
 * ```
 */
export const make = (options: ScrubberOptions = {}): Scrubber => {
  const problem = problemOf("Scrubber.make", options, shape)
  if (problem !== undefined) throw problem
  const { paths = [], recognize = true, secrets = [] } = options
  const values = new KnownValues(
    entriesOf(secrets).flatMap(([type, secret]) => {
      const value: unknown = Redacted.isRedacted(secret) ? Redacted.value(secret) : secret
      // An untyped program may pass the value of a missing setting.
      if (typeof value !== "string" || value.length < shortestSecret) return []
      return formsOf(value).map((text) => ({ text, show: placeholder(type), type }))
    })
  )
  const rules: Rules = {
    values,
    paths: new KnownValues(
      paths.filter(({ path }) => path.length > 1).map(({ path, show }) => ({ text: path, show }))
    ),
    layers: recognize ? "all" : "none"
  }
  const withoutPaths: Rules = { values, paths: new KnownValues([]), layers: recognize ? "named" : "none" }
  return {
    redact: (text) => scrubText(text, withoutPaths),
    redactFields: (json) => (recognize ? scrubFields(json) : json),
    scrub: (text) => scrubText(text, rules),
    stream: () => new TextScrubber(rules),
    redactStream: () => new TextScrubber(withoutPaths)
  }
}

/**
 * Selects the fields of an object, such as an environment, whose names show that they hold a secret (`DB_PASSWORD`), for the option
 * `secrets` of {@link make}. Values that do not look like secrets are left out: those under 8 characters, for example, and ordinary single
 * words, which would be removed from every text.
 *
 * ```ts run
 * import { Scrubber } from "@fermata/sdk"
 *
 * const { API_TOKEN, HOME } = Scrubber.secretsIn({ API_TOKEN: "a8Kf03jQmZ19xTbWv72L", HOME: "/home/ann" })
 * // HOME is undefined
 * ```
 */
export const secretsIn = (
  fields: Readonly<Record<string, string | undefined>>
): Readonly<Record<string, string>> =>
  Object.fromEntries(
    Object.entries(fields).flatMap(([name, value]) => {
      const kind = kindOf(name)
      if (kind === undefined || value === undefined || value.length < shortestNamed) return []
      if (ordinaryWord.test(value)) return []
      const given = { text: value, quoted: true, literal: true, assigned: true }
      return isSecret(kind, name, given) ? [[name, value] as const] : []
    })
  )

/** A shorter value of a setting may be an ordinary word. */
const shortestNamed = 8

/** A word, such as the `postgres` of `DB_PASSWORD=postgres`, which texts have for other reasons. */
const ordinaryWord = /^(?:[A-Z]?[a-z]{1,13}|[A-Z]{1,13})$/

/** The secrets with their types: `secret`, or the name of the field in lower case. */
const entriesOf = (
  secrets: NonNullable<ScrubberOptions["secrets"]>
): ReadonlyArray<readonly [string, string | Redacted.Redacted<string>]> =>
  Symbol.iterator in secrets
    ? Array.from(secrets, (secret) => ["secret", secret] as const)
    : Object.entries(secrets).map(([name, secret]) => [typeOf(name), secret] as const)

/** The replacement for a text on which the scrubber failed. */
export const withheld = "[withheld: the scrubber failed on this text]"

/**
 * Makes the scrubber of a run: it first removes all secrets that this process uses, such as the keys of model clients and the values that
 * `Secrets` has resolved, and then applies the given scrubber. It never fails: a text for which the given one throws or returns no string
 * becomes {@link withheld}.
 */
export const contained = (scrubber: Scrubber): Required<Scrubber> => {
  const attempt = (clean: (text: string) => unknown) => (text: string) => {
    try {
      const cleaned = clean(text)
      return typeof cleaned === "string" ? cleaned : withheld
    } catch {
      return withheld
    }
  }
  const scrub = attempt((text) => scrubber.scrub(text))
  const redact = attempt((text) =>
    scrubber.redact === undefined ? scrubber.scrub(text) : scrubber.redact(text)
  )
  const begun = (begin: () => ScrubStream | undefined): ScrubStream | undefined => {
    try {
      const stream = begin()
      if (stream === undefined) return undefined
      return { push: attempt((chunk) => stream.push(chunk)), end: () => attempt(() => stream.end())("") }
    } catch {
      return { push: () => withheld, end: () => "" }
    }
  }
  return {
    scrub: attempt((text) => scrub(withoutProcessSecrets(text))),
    redact: attempt((text) => redact(withoutProcessSecrets(text))),
    redactFields: attempt((json) =>
      scrubber.redactFields === undefined ? json : scrubber.redactFields(json)
    ),
    stream: () => afterKnown(begun(() => scrubber.stream?.()) ?? { push: scrub, end: () => "" }),
    redactStream: () => afterKnown(begun(() => scrubber.redactStream?.()) ?? wordByWord(redact))
  }
}

/** Removes the secrets that this process uses before the text reaches the stream. */
const afterKnown = (stream: ScrubStream): ScrubStream => {
  const known = processScrubber()
  return {
    push: (chunk) => pushed(stream, known.push(chunk)),
    end: () => pushed(stream, known.end()) + stream.end()
  }
}

/** The result of a stream for a chunk. An empty chunk is not passed on, since a scrubber need not handle it. */
const pushed = (stream: ScrubStream, chunk: string): string => (chunk === "" ? "" : stream.push(chunk))

/** Changes a streamed text word by word. A word is complete at the next space, or with 512 characters. */
const wordByWord = (change: (text: string) => string): ScrubStream => {
  let rest = ""
  const changed = (text: string) => (text === "" ? "" : change(text))
  return {
    push: (chunk) => {
      const text = rest + chunk
      rest = /[!-~]+$/.exec(text.slice(-512))?.[0] ?? ""
      return changed(text.slice(0, text.length - rest.length))
    },
    end: () => changed(rest)
  }
}

const unchanged: ScrubStream = { push: (chunk) => chunk, end: () => "" }

/** A scrubber that changes nothing. Runs still remove the secrets that the process uses, such as keys of model clients. */
export const none: Scrubber = {
  scrub: (text) => text,
  stream: () => unchanged,
  redactStream: () => unchanged
}

/** The scrubber of the context. Default: {@link make} without options. */
export const Scrubber = Context.Reference<Scrubber>("@fermata/sdk/tool/Scrubber", {
  defaultValue: () => make()
})
