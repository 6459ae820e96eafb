/**
 * Converts a provider's error, in any of the known shapes, to a `Reason`. An error may be a response of its own or an event in a stream.
 *
 * Codes and types count most, then the text, then the status. The text matters for the two errors that some providers express only in
 * words: the request is too long for the model, and the credit is used up.
 */
import {
  ContextOverflow,
  InvalidRequest,
  NotAuthorized,
  ProviderFault,
  QuotaExhausted,
  RateLimited,
  type Reason,
  StreamUnsupported
} from "../ModelError.ts"
import { type Fields, fieldsOf, textOf } from "./fields.ts"

/** Facts about an error besides its body. */
export interface ErrorFacts {
  /** The status of the response. Omitted for an error inside a stream. */
  readonly status?: number
  /** The wait that the headers ask for. */
  readonly retryAfterMs?: number
  /** The current time, in milliseconds since 1970. */
  readonly now?: number
}

/**
 * Returns the reason for the parsed body of an error: an object in any of the known shapes, or text. An unreadable body gives a
 * `ProviderFault`. Never throws.
 */
export const reasonOf = (body: unknown, facts: ErrorFacts = {}): Reason => {
  try {
    return meaningOf(body, facts)
  } catch {
    return new ProviderFault({ description: wordsFor(facts.status) })
  }
}

/** The longest wait that is reported. Also excludes `Infinity`, which is how a number of 400 digits is parsed. */
const longestAdvice = 365 * 86_400_000

const meaningOf = (body: unknown, facts: ErrorFacts): Reason => {
  const said = read(body)
  const status = facts.status ?? statusIn(said.code)
  const description = said.message === "" ? wordsFor(status) : said.message
  const { code, type } = said
  const is = (names: ReadonlySet<string>) =>
    (typeof code === "string" && names.has(code)) || (type !== undefined && names.has(type))

  if (is(overflowCodes) || status === 413 || speaksOfOverflow(said.message)) {
    return new ContextOverflow({
      description: said.sizes === undefined ? description : `${description} (${said.sizes})`
    })
  }
  if (status === 402 || is(quotaCodes) || quotaWords.test(said.message)) {
    const resetsAt = said.resetsAt ?? later(facts.now, said.resetsInSeconds)
    return new QuotaExhausted({
      description: resetsAt === undefined ? description : `${description} It resets at ${isoTime(resetsAt)}.`,
      ...(resetsAt === undefined ? {} : { resetsAt })
    })
  }
  if (status === 401 || status === 403 || is(authorizationCodes)) return new NotAuthorized({ description })
  const asked = facts.retryAfterMs ?? said.retryAfterMs
  const advice = asked === undefined ? {} : { retryAfterMs: Math.min(asked, longestAdvice) }
  if (status === 429 || is(rateLimitCodes)) return new RateLimited({ description, ...advice })
  if (said.param === "stream" && status !== undefined && status < 500)
    return new StreamUnsupported({ description })
  // A status such as 404 states that the request is wrong, also beside a type such as `api_error`, which only names the API.
  const isRefused = status !== undefined && status < 500 && !isTransient(status)
  if ((is(faultCodes) && !isRefused) || (status !== undefined && isTransient(status))) {
    return new ProviderFault({ description, ...advice })
  }
  if (status !== undefined || is(requestCodes)) return new InvalidRequest({ description })
  return new ProviderFault({ description, ...advice })
}

/** Returns `true` if the same request may succeed later. 501 is the only 5xx status for which it cannot. */
const isTransient = (status: number): boolean =>
  status === 408 || status === 409 || status === 425 || status === 429 || (status >= 500 && status !== 501)

/** The text of an error that states neither a code nor a type; `undefined` for another error, and without a text. */
export const bareTextOf = (body: unknown): string | undefined => {
  const { code, message, type } = read(body)
  return code === undefined && (type === undefined || type === "error") ? textOf(message) : undefined
}

/** Returns `true` if the body of an error names the requested model, so that the address is right. */
export const speaksOfModel = (body: unknown): boolean => {
  const { code, message, type } = read(body)
  return (
    code === "model_not_found" || (type !== "invalid_url" && /\bmodels?\b|\bdeployments?\b/i.test(message))
  )
}

/**
 * Returns `true` if the body of a 404 is about something in the request, so that the address is right: a provider's error in its full
 * shape that does not state that the address is unknown.
 */
export const speaksOfRequest = (body: unknown): boolean => {
  const { code, isNested, message, param, type } = read(body)
  if (!isNested || message === "") return false
  if (code === undefined && type === undefined && param === undefined) return false
  return code !== "invalid_url" && type !== "invalid_url" && !speaksOfAddress(message, code)
}

/**
 * Texts for an unknown address from Groq, OpenAI, servers on FastAPI, and Azure. llama.cpp writes `File Not Found` with the code 404;
 * Anthropic has a similar text for a file, so the code is compared, too.
 */
const speaksOfAddress = (message: string, code: string | number | undefined): boolean =>
  /unknown request url|^invalid url|^(?:resource )?not found\.?$/i.test(message) ||
  (message === "File Not Found" && code === 404)

const overflowCodes = new Set([
  "context_length_exceeded",
  "exceed_context_size_error",
  "model_context_window_exceeded",
  "request_too_large",
  "string_above_max_length"
])

const quotaCodes = new Set([
  "insufficient_quota",
  "usage_limit_reached",
  "usage_not_included",
  "billing_error",
  "billing_hard_limit_reached",
  "billing_not_active",
  "quota_exceeded",
  "insufficient_balance",
  "payment_required"
])

const authorizationCodes = new Set([
  "invalid_api_key",
  "authentication_error",
  "permission_error",
  "unauthorized",
  "invalid_authentication_error",
  "permission_denied"
])

const rateLimitCodes = new Set([
  "rate_limit_exceeded",
  "rate_limit_error",
  "too_many_requests",
  "requests",
  "tokens",
  "slow_down"
])

const faultCodes = new Set([
  "api_error",
  "overloaded_error",
  "server_error",
  "internal_error",
  "internal_server_error",
  "server_is_overloaded",
  "timeout_error",
  "service_unavailable",
  "bad_gateway",
  "network_error"
])

const requestCodes = new Set([
  "invalid_request_error",
  "invalid_prompt",
  "not_found_error",
  "model_not_found",
  "tool_use_failed",
  "invalid_type",
  "unsupported_value"
])

// The texts of npm `@mariozechner/pi-ai` (MIT), `utils/overflow`, without those that also announce throttling.
const overflowWords =
  /prompt is too long|input is too long|exceeds? the (?:model'?s )?(?:maximum )?context (?:window|length|size)|maximum context length|maximum prompt length is|reduce the length of the (?:messages|prompt)|exceeds the available context size|context size has been exceeded|exceeded model token limit|too large for model with \d+ maximum context length|context[ _]length[ _]exceeded|context window exceeds limit|greater than the context length|input token count .{0,40}exceeds the maximum/i
const throttlingWords = /rate limit|too many tokens, please wait|tokens per (?:min|day)|throttl/i

const speaksOfOverflow = (message: string): boolean =>
  overflowWords.test(message) && !throttlingWords.test(message)

const quotaWords =
  /monthly (?:usage |spend(?:ing)? )?limit|credit balance is too low|insufficient (?:credits|balance|funds)|out of credits|spending (?:limit|cap)/i

const wordsFor = (status: number | undefined): string =>
  status === undefined
    ? "The provider reported an error without a message."
    : `The provider answered with status ${status} and no message.`

const numberOf = (value: unknown): number | undefined =>
  typeof value === "number" && Number.isFinite(value) ? value : undefined

/** Reads the known fields of an error in any shape. */
const read = (body: unknown) => {
  const outer = fieldsOf(Array.isArray(body) ? body[0] : body)
  const holder = outer?.error ?? fieldsOf(outer?.response)?.error ?? firstOf(outer?.errors) ?? outer ?? body
  const error = fieldsOf(holder)
  const message = textOf(holder) ?? messageIn(error) ?? messageIn(outer) ?? ""
  const metadata = fieldsOf(error?.metadata)
  const raw = textOf(metadata?.raw)
  const code = error?.code ?? error?.status
  const prompt = numberOf(error?.n_prompt_tokens)
  const room = numberOf(error?.n_ctx)
  const resetsAt = numberOf(error?.resets_at)
  return {
    /** The error is an object in the field `error`. */
    isNested: fieldsOf(outer?.error) !== undefined,
    // OpenRouter puts its provider's message in `metadata.raw`, beside a generic one.
    message: isText(message) ? (raw === undefined ? message : `${message}: ${raw}`) : "",
    code: textOf(code) ?? numberOf(code),
    type: textOf(error?.type),
    param: textOf(error?.param),
    retryAfterMs: delayIn(error, message),
    resetsAt: resetsAt === undefined ? undefined : numberOf(resetsAt * 1000),
    resetsInSeconds: numberOf(error?.resets_in_seconds),
    sizes:
      prompt === undefined || room === undefined
        ? undefined
        : `${prompt} tokens, and there is room for ${room}`
  }
}

const firstOf = (value: unknown): unknown => (Array.isArray(value) ? value[0] : undefined)

const messageIn = (fields: Fields | undefined): string | undefined => {
  if (fields === undefined) return undefined
  const detail = firstOf(fields.detail) ?? fields.detail
  return (
    textOf(fields.message) ??
    textOf(detail) ??
    textOf(fieldsOf(detail)?.msg) ??
    textOf(fieldsOf(detail)?.message) ??
    textOf(fields.msg) ??
    textOf(fields.error_description)
  )
}

/** An HTML page is not a message. */
const isText = (message: string): boolean => !/^\s*<(?:!doctype|html|head|\?xml)/i.test(message)

const statusIn = (code: string | number | undefined): number | undefined => {
  const status = typeof code === "string" && /^[45]\d\d$/.test(code) ? Number(code) : code
  return typeof status === "number" && status >= 400 && status < 600 ? status : undefined
}

/** "Please try again in 1.3s" (OpenAI), or a `retryDelay` of "34s" among the details (Google). */
const delayIn = (error: Fields | undefined, message: string): number | undefined => {
  const details = Array.isArray(error?.details) ? error.details : []
  const delay = details
    .map((detail) => textOf(fieldsOf(detail)?.retryDelay))
    .find((text) => text !== undefined)
  const written = /try again in ((?:\d+h)?(?:\d+m(?!s))?(?:[\d.]+ ?m?s)?)/i.exec(message)?.[1]
  const text = delay ?? written
  return text === undefined || text === "" ? undefined : millisOf(text)
}

const units: Readonly<Record<string, number>> = { h: 3_600_000, m: 60_000, s: 1000, ms: 1 }

const millisOf = (text: string): number | undefined => {
  let millis = 0
  for (const [, count, unit] of text.matchAll(/([\d.]+) ?(ms|h|m|s)/gi)) {
    millis += Number(count) * units[unit!.toLowerCase()]!
  }
  return Number.isFinite(millis) && millis > 0 ? Math.ceil(millis) : undefined
}

const later = (now: number | undefined, seconds: number | undefined): number | undefined =>
  now === undefined || seconds === undefined ? undefined : numberOf(now + seconds * 1000)

const isoTime = (millis: number): string => {
  const date = new Date(millis)
  return Number.isNaN(date.getTime()) ? "an unknown time" : date.toISOString()
}
