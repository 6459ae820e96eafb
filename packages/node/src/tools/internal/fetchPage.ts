/**
 * Fetches a page and makes the result of a tool call of it: text in parts, or a file.
 */
import { Display, Message, Tool } from "@fermata/sdk"
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import { hostOf, includes, type Pattern } from "../../guard/internal/domains.ts"
import { openWeb } from "../../guard/internal/openWeb.ts"
import { RequestFailed } from "../../guard/internal/RequestFailed.ts"
import { type GuardedResponse, sendGuarded, type Sending } from "../../guard/internal/sendGuarded.ts"
import type { Options } from "../../guard/internal/webOptions.ts"
import { UrlRefused, withoutCredentials } from "../../guard/WebGuard.ts"
import { decodeText } from "./decodeText.ts"
import { htmlText } from "./htmlText.ts"
import { contentTypeOf, mediaOf } from "./mediaType.ts"
import { type Page, untrustedPage } from "./untrustedPage.ts"

/** The arguments of a call of `fetch_url`. */
export interface PageRequest {
  readonly url: string
  readonly format: "text" | "html"
  readonly offset: number
  readonly maxLength: number
}

export interface Fetching {
  readonly web: Options
  /** The domains to which a redirect is followed, besides that of the page. */
  readonly allow: ReadonlyArray<Pattern>
  readonly maxFileSize: number
  readonly progress: (message: string) => void
}

/** The longest HTML, in characters, whose text is extracted; the rest is left out. */
const longestHtml = 5_000_000

/**
 * Reads the page of a URL as a part of its text, or an image or a PDF as an attachment. The connections close with the scope.
 */
export const fetchPage = (
  { web, ...fetching }: Fetching,
  request: PageRequest
): Effect.Effect<string | Tool.Content, UrlRefused | RequestFailed, Scope.Scope> =>
  Effect.flatMap(openWeb(web), (sending) =>
    Effect.tryPromise({
      try: (signal) => fetchFrom(sending, fetching, request, signal),
      catch: (error) => {
        if (error instanceof UrlRefused || error instanceof RequestFailed) return error
        throw error
      }
    })
  )

const fetchFrom = async (
  sending: Sending,
  { allow, maxFileSize, progress }: Omit<Fetching, "web">,
  { format, maxLength, offset, url }: PageRequest,
  signal: AbortSignal
): Promise<string | Tool.Content> => {
  const follows = (from: URL, to: URL): boolean => {
    const isFollowed = isSameSite(from, to) || includes(allow, hostOf(to))
    if (isFollowed) progress(Display.sentence`redirected to ${to.href}`)
    return isFollowed
  }
  const headers = { accept: "text/html, text/markdown, text/plain, application/json, */*;q=0.5" }
  const response = await sendGuarded({ ...sending, follows }, { method: "GET", url, headers }, signal)
  const { status } = response
  const contentType = contentTypeOf(response.headers["content-type"])
  progress(Display.sentence`${status} ${contentType.mediaType} from ${response.url.host}`)
  const bytes = await readBytes(response, progress)
  const media = mediaOf(bytes, contentType)
  const { mediaType } = media
  const page = (text: string, notes: Page["notes"] = []): string =>
    untrustedPage({ url: response.url, status, mediaType, text, notes: [...statusNotes(response), ...notes] })

  if (media._tag === "file" || media._tag === "binary") {
    const size = `${bytes.length} bytes of ${mediaType}`
    if (media._tag === "binary")
      return page("", [`The response is ${size}, which is neither text nor an image.`])
    if (bytes.length > maxFileSize)
      return page("", [`The response is ${size}. Files of more than ${maxFileSize} bytes are not attached.`])
    const source = { _tag: "bytes" as const, base64: Buffer.from(bytes).toString("base64") }
    const text = page("", [`The response is attached: ${size}. What it shows is as untrusted as a page.`])
    return Tool.content([Message.text(text), { _tag: "file", mediaType, source }])
  }

  const source = decodeText(bytes, contentType.charset, media._tag === "html" || mediaType.endsWith("xml"))
  const whole = media._tag === "html" && format === "text" ? await readable(source, response.url) : source
  const start = boundary(whole, offset)
  const end = boundary(whole, start + maxLength)
  if (end === whole.length && start === 0) return page(whole)
  const range = `Characters ${start} to ${end} of ${whole.length}.`
  const more = end === whole.length ? "" : ` For the next part, call fetch_url with offset ${end}.`
  return page(whole.slice(start, end), [`${range}${more}`])
}

const readable = async (html: string, url: URL): Promise<string> => {
  const { text, title } = await htmlText(html.slice(0, longestHtml), url)
  const cut =
    html.length > longestHtml ? `\n\n[the page is longer than ${longestHtml} characters of HTML]` : ""
  return `${title === "" ? "" : `Title: ${title}\n\n`}${text}${cut}`
}

/** Publishes a message for each megabyte. */
const readBytes = async (
  { body }: GuardedResponse,
  progress: (message: string) => void
): Promise<Uint8Array> => {
  const chunks: Array<Uint8Array> = []
  let size = 0
  for await (const chunk of body) {
    chunks.push(chunk)
    const before = Math.floor(size / 1_000_000)
    size += chunk.length
    if (Math.floor(size / 1_000_000) > before) progress(`${Math.floor(size / 1_000_000)} MB received`)
  }
  return Buffer.concat(chunks)
}

/** Sentences for the model about an HTTP status. */
const statusNotes = ({ headers, status, url }: GuardedResponse): ReadonlyArray<string> => {
  const location = typeof headers.location === "string" ? URL.parse(headers.location, url.href) : null
  if (status >= 300 && status < 400 && location !== null)
    return [
      `The page redirects to ${withoutCredentials(location)}, another site. To read that, call fetch_url with its URL.`
    ]
  return status >= 400
    ? [`The server answered with the error ${status}: this is not the page that was asked for.`]
    : []
}

/** Whether a redirect stays on a site, or leads to the same one over TLS. */
const isSameSite = (from: URL, to: URL): boolean =>
  withoutWww(from) === withoutWww(to) &&
  (from.protocol === to.protocol || to.protocol === "https:") &&
  (from.port === to.port || (from.port === "" && to.port === ""))

const withoutWww = ({ hostname }: URL): string => hostname.replace(/^www\./, "").replace(/\.$/, "")

/** A position that is not inside a character. */
const boundary = (text: string, position: number): number => {
  const at = Math.min(position, text.length)
  const code = text.charCodeAt(at)
  return code >= 0xdc00 && code <= 0xdfff && at > 0 ? at + 1 : at
}
