/**
 * The secrets that this process uses: keys of model clients, tokens of logins, credentials of MCP servers, and values that `Secrets` has
 * resolved. Every scrubber removes them, so that a program that makes a client with a key needs no further step.
 *
 * One list per process, because a secret is one wherever it occurs: a client may be wrapped, and a text may be written by a function that
 * knows no runtime. The list is bounded; the secrets that were used least recently are forgotten first.
 */
import * as Redacted from "effect/Redacted"

/** A secret and its type, with which it is replaced. */
export interface KnownSecret {
  readonly value: string
  readonly type: string
}

/** An index that finds secrets in texts. It is informed of each secret that is added or removed. */
export interface SecretIndex {
  readonly add: (secret: KnownSecret) => void
  readonly remove: (secret: KnownSecret) => void
}

/** The fewest characters of a known secret. A shorter text occurs in ordinary words. */
export const shortestSecret = 6

/** The most known secrets. Each takes about 4 KB in the index of the scrubbers. */
const mostSecrets = 10_000

/** By value, the least recently used first. */
const secrets = new Map<string, KnownSecret>()
let index: SecretIndex | undefined

/** Makes every scrubber of the process remove a secret. The first type stays. One under 6 characters is ignored. */
export const know = (type: string, given: string | Redacted.Redacted<string>): void => {
  const value = textOf(given)
  if (value.length < shortestSecret) return
  const known = secrets.get(value)
  secrets.delete(value)
  secrets.set(value, known ?? { type, value })
  if (known !== undefined) return
  index?.add({ type, value })
  if (secrets.size <= mostSecrets) return
  const [oldest] = secrets.values()
  if (oldest === undefined) return
  secrets.delete(oldest.value)
  index?.remove(oldest)
}

/** The text of a secret, which is read from a file with a line break at its end. An untyped program may pass anything. */
const textOf = (given: unknown): string => {
  const value: unknown = Redacted.isRedacted(given) ? Redacted.value(given) : given
  return typeof value === "string" ? value.trim() : ""
}

/**
 * Makes every scrubber remove the credential of a client, unless it is made of words: servers without keys take any, such as `ollama` or
 * `not-needed`, and the word would be removed from all texts.
 */
export const knowCredential = (type: string, given: string | Redacted.Redacted<string>): void => {
  const value = textOf(given)
  // With its scheme, such as `Bearer`, only the credential is a secret.
  const [, credential = value] = /^[A-Za-z][\w-]{2,40} +(\S.*)$/.exec(value) ?? []
  if (!isWords.test(credential) && credential.length >= shortestCredential) know(type, credential)
}

/** The names of headers whose values are credentials. */
const ofCredentials = /authorization|cookie|key|token|secret|password/i

/** The values of the headers that hold a credential. */
export const credentialsIn = (headers: Readonly<Record<string, string>>): ReadonlyArray<string> =>
  Object.entries(headers).flatMap(([name, value]) =>
    ofCredentials.test(name) && typeof value === "string" ? [value] : []
  )

/** The password of an address, and the parameters of its query that hold a credential. */
export const credentialsOf = (address: string | URL): ReadonlyArray<string> => {
  const url = URL.parse(String(address))
  if (url === null) return []
  const [password = ""] = new URLSearchParams(`password=${url.password.replaceAll("+", "%2B")}`).values()
  const inQuery = credentialsIn(Object.fromEntries(url.searchParams))
  return password === "" ? inQuery : [password, ...inQuery]
}

const shortestCredential = 8
const isWords = /^[A-Za-z]{1,23}(?:[-_. ][A-Za-z]{1,23})*$/

/** Attaches the index of the scrubbers, once, with the secrets that are known already. */
export const attachIndex = (made: SecretIndex): void => {
  index = made
  for (const secret of secrets.values()) made.add(secret)
}
