/** What it means that a server could not be reached, or was lost: said by its code, never by its cause, which may hold what was sent. */
import type * as HttpClientError from "effect/http/HttpClientError"
import { ConnectionLost, InvalidRequest, type ModelError } from "../../ModelError.ts"
import type { ModelProfile } from "../../ModelProfile.ts"
import { modelError } from "../modelError.ts"

/** The server of a profile, for people. */
export const hostOf = ({ baseUrl, name }: ModelProfile): string => URL.parse(baseUrl)?.host ?? name

/** The connection failed. */
export const connectionError = (
  error: HttpClientError.HttpClientError,
  profile: ModelProfile
): ModelError => {
  const where = hostOf(profile)
  if (error.reason._tag === "InvalidUrlError" || error.reason._tag === "EncodeError") {
    return modelError(new InvalidRequest({ description: `The request to ${where} cannot be sent.` }))
  }
  const code = codeOf(error.reason.cause)
  if (code !== undefined && /CERT|SELF_SIGNED|ERR_TLS|UNABLE_TO_/.test(code)) {
    const description = `The certificate of ${where} is not accepted (${code}): check the base URL, or give Node the authority that signed it.`
    return modelError(new ConnectionLost({ description }), { retryable: false })
  }
  if (code === "ERR_SSL_WRONG_VERSION_NUMBER") {
    const description = `What listens at ${where} does not speak https: if it speaks http, say so in the base URL.`
    return modelError(new ConnectionLost({ description }), { retryable: false })
  }
  const known = code === undefined ? undefined : words[code]
  const why = known === undefined ? (code === undefined ? "" : ` (${code})`) : `: ${known} (${code})`
  return modelError(new ConnectionLost({ description: `The connection to ${where} failed${why}.` }))
}

const words: Readonly<Record<string, string>> = {
  ECONNREFUSED: "nothing listens there",
  ECONNRESET: "it was cut",
  EPIPE: "it was cut",
  UND_ERR_SOCKET: "it was cut",
  ENOTFOUND: "there is no such host",
  EAI_AGAIN: "the name could not be looked up",
  ETIMEDOUT: "nobody answered",
  UND_ERR_CONNECT_TIMEOUT: "nobody answered",
  UND_ERR_HEADERS_TIMEOUT: "nobody answered",
  UND_ERR_BODY_TIMEOUT: "nothing came any more",
  HTTPParserError: "what came is not HTTP, so check the base URL"
}

const codeOf = (cause: unknown): string | undefined => {
  for (let at = cause, depth = 0; typeof at === "object" && at !== null && depth < 5; depth++) {
    if ("code" in at && typeof at.code === "string" && /^[A-Z0-9_]{1,60}$/.test(at.code)) return at.code
    // It often has no code.
    if ("name" in at && at.name === "HTTPParserError") return at.name
    at = "cause" in at ? at.cause : undefined
  }
  return undefined
}
