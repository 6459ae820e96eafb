/**
 * Removes secrets and host paths from the output of tools before it is journaled, published or shown to a model, and secrets from
 * all other texts that a run writes: prompts, responses, arguments, decisions and reasons.
 *
 * A secret is removed before the first write, and the run does not keep it either: a tool whose arguments contained a secret receives
 * the scrubbed arguments. Do not pass secrets to tools through the conversation. Of files, only text files in the results of tools
 * are scrubbed. Providers' payloads are not, nor are the deltas of a response that subscribers in the driving process receive.
 *
 * The default scrubber removes only texts that can be nothing but a credential. A scrubber that also removed hashes and ids would destroy
 * an agent's work. To remove other secrets, pass their values to {@link make}.
 *
 * @since 0.1.0
 */
import * as Context from "effect/Context"
import * as Base64 from "effect/encoding/Base64"
import * as Redacted from "effect/Redacted"
import { keysOf, shapeOf } from "../domain/internal/misfits.ts"
import { problemOf } from "../domain/OptionsInvalid.ts"

/**
 * Removes secrets and host paths from texts. Provide your own as the service `Scrubber` or as an option of a Fermata.
 *
 * @category services
 * @since 0.1.0
 */
export interface Scrubber {
  /** Removes secrets and host paths from a tool's results, failures, progress, output and previews. */
  readonly scrub: (text: string) => string
  /** Removes only secrets, from all other texts of a run. Default: `scrub`. */
  readonly redact?: (text: string) => string
}

/** Options of {@link make}: what to remove in addition to texts with the shape of a credential. */
export interface ScrubberOptions {
  /** Secrets to remove by value, also as JSON, base64 and URL-encoded. Values under 6 characters are ignored. */
  readonly secrets?: Iterable<string | Redacted.Redacted<string>>
  /** Texts to replace in the output of tools, such as a home directory by `~`, wherever they occur. A path of one character is ignored. */
  readonly paths?: ReadonlyArray<{ readonly path: string; readonly show: string }>
}

const redacted = "[redacted]"

/** Shapes that only credentials have. Matching is linear: each is a bounded character class after a literal prefix. */
const shapes: ReadonlyArray<RegExp> = [
  /-----BEGIN [A-Z ]{0,30}PRIVATE KEY-----[\s\S]{0,8000}?-----END [A-Z ]{0,30}PRIVATE KEY-----/g,
  /\b(?:sk|rk|pk)[-_](?:ant-|proj-|live[-_]|test[-_])?[A-Za-z0-9_-]{20,200}/g,
  /\b(?:ghp|gho|ghu|ghs|ghr)_[A-Za-z0-9]{36,255}|\bgithub_pat_[A-Za-z0-9_]{22,255}/g,
  /\bglpat-[A-Za-z0-9_-]{20,100}/g,
  /\bxox[abeoprs]-[A-Za-z0-9-]{10,250}/g,
  /\b(?:AKIA|ASIA)[A-Z0-9]{16}\b/g,
  /\bAIza[A-Za-z0-9_-]{35}\b/g,
  /\bnpm_[A-Za-z0-9]{36}\b/g,
  /\beyJ[A-Za-z0-9_-]{10,2000}\.eyJ[A-Za-z0-9_-]{10,4000}\.[A-Za-z0-9_-]{10,1000}/g
]

/** Secrets recognized by the text around them, which stays. */
const contexts: ReadonlyArray<readonly [RegExp, string]> = [
  [/\b(authorization:\s{0,5}(?:bearer|basic|token)\s{1,5})[^\s"'\\]{8,4000}/gi, `$1${redacted}`],
  [/(\b[a-z][a-z0-9+.-]{1,20}:\/\/[^\s/:@"']{0,100}:)[^\s/@"']{3,200}(@)/gi, `$1${redacted}$2`]
]

const encodings = (given: string): ReadonlyArray<string> => {
  // `encodeURIComponent` throws for a lone surrogate.
  const secret = given.toWellFormed()
  const base64 = Base64.encode(new TextEncoder().encode(secret))
  return [
    given,
    secret,
    // Results that are not text are scrubbed as JSON.
    JSON.stringify(secret).slice(1, -1),
    base64,
    base64.replaceAll("+", "-").replaceAll("/", "_").replace(/=+$/, ""),
    encodeURIComponent(secret)
  ]
}

const shape = shapeOf<ScrubberOptions>({
  secrets: "anything",
  paths: { each: keysOf(["path", "show"]) }
})

/**
 * Makes a scrubber that removes these secrets, these paths and every text with the shape of a credential.
 *
 * **Errors**
 *
 * Throws `OptionsInvalid` for an unknown option, and for `paths` that are not a list of objects with no other keys than `path` and `show`.
 * A secret that is not a string is ignored.
 */
export const make = (options: ScrubberOptions = {}): Scrubber => {
  const problem = problemOf("Scrubber.make", options, shape)
  if (problem !== undefined) throw problem
  const values = new Set<string>()
  for (const secret of options.secrets ?? []) {
    const value: unknown = Redacted.isRedacted(secret) ? Redacted.value(secret) : secret
    // An untyped program may pass the value of a missing setting.
    if (typeof value !== "string") continue
    if (value.length >= shortestSecret) for (const form of encodings(value)) values.add(form)
  }
  const longestFirst = [...values].sort((a, b) => b.length - a.length)
  const paths = [...(options.paths ?? [])]
    .filter(({ path }) => path.length > 1)
    .sort((a, b) => b.path.length - a.path.length)
  const redact = (text: string): string => {
    if (text.length < shortestSecret) return text
    let out = text
    for (const value of longestFirst) out = out.replaceAll(value, redacted)
    if (!mayHoldShape.test(out)) return out
    for (const shape of shapes) out = out.replace(shape, redacted)
    for (const [context, show] of contexts) out = out.replace(context, show)
    return out
  }
  return {
    redact,
    scrub: (text) => {
      let out = redact(text)
      for (const { path, show } of paths) out = out.replaceAll(path, show)
      return out
    }
  }
}

const shortestSecret = 6

/** A text that every shape and context contains. This one search saves the others for most texts. */
const mayHoldShape =
  /-----BEGIN|[srp]k[-_]|gh[pousr]_|github_pat_|glpat-|xox[abeoprs]-|AKIA|ASIA|AIza|npm_|eyJ|authorization:|:\/\//i

/** The replacement for a text on which the scrubber failed. */
export const withheld = "[withheld: the scrubber failed on this text]"

/** Makes a scrubber that never fails: a text for which the given one throws or returns no string becomes {@link withheld}. */
export const contained = (scrubber: Scrubber): Required<Scrubber> => {
  const attempt = (clean: (text: string) => unknown) => (text: string) => {
    try {
      const cleaned = clean(text)
      return typeof cleaned === "string" ? cleaned : withheld
    } catch {
      return withheld
    }
  }
  return {
    scrub: attempt((text) => scrubber.scrub(text)),
    redact: attempt((text) => (scrubber.redact === undefined ? scrubber.scrub(text) : scrubber.redact(text)))
  }
}

/** A scrubber that changes nothing. */
export const none: Scrubber = { scrub: (text) => text }

/** The scrubber of the context. Default: {@link make} without options. */
export const Scrubber = Context.Reference<Scrubber>("@fermata/sdk/tool/Scrubber", {
  defaultValue: () => make()
})
