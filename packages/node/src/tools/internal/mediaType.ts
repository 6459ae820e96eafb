/**
 * The media type of a response, by its bytes and its declared type.
 */
import { isUtf8 } from "./decodeText.ts"

export type Media =
  | { readonly _tag: "html" | "text" | "binary"; readonly mediaType: string }
  /** A file that models read as it is. */
  | { readonly _tag: "file"; readonly mediaType: string }

export interface ContentType {
  /** In lower case; empty if the header is missing or malformed. */
  readonly mediaType: string
  readonly charset: string | undefined
}

export const contentTypeOf = (header: unknown): ContentType => {
  const text = typeof header === "string" ? header.slice(0, 300) : ""
  const [, mediaType = ""] = /^\s*([\w!#$&^.+-]+\/[\w!#$&^.+-]+)\s*(?:;|$)/.exec(text) ?? []
  const [, charset] = /;\s*charset\s*=\s*"?([\w:.+-]+)/i.exec(text) ?? []
  return { mediaType: mediaType.toLowerCase(), charset }
}

/**
 * Determines the media type of a content. For an image or a PDF the bytes take precedence over the declared type, because a provider
 * refuses a file that is not the image it claims to be. Then the declared type decides, and without a textual one, the bytes.
 */
export const mediaOf = (bytes: Uint8Array, { mediaType }: ContentType): Media => {
  const found = signatures.find(({ begins }) => begins(bytes))
  if (found !== undefined) return { _tag: "file", mediaType: found.mediaType }
  if (/^(text\/html|application\/xhtml\+xml)$/.test(mediaType)) return { _tag: "html", mediaType }
  if (textual.test(mediaType)) return { _tag: "text", mediaType }
  const isText = !bytes.subarray(0, sampled).includes(0) && isUtf8(bytes)
  if (!isText) return { _tag: "binary", mediaType: mediaType || "application/octet-stream" }
  const start = new TextDecoder("latin1").decode(bytes.subarray(0, 100)).trimStart()
  return /^<(!doctype html|html)\b/i.test(start)
    ? { _tag: "html", mediaType: mediaType || "text/html" }
    : { _tag: "text", mediaType: mediaType || "text/plain" }
}

const sampled = 4096

const textual =
  /^text\/|[/+](json|jsonl|ndjson|xml|javascript|ecmascript|typescript|yaml|x-yaml|toml|sql|graphql|x-ndjson|x-sh|csv)$/

const latin1 = (bytes: Uint8Array, start: number, end: number): string =>
  String.fromCharCode(...bytes.subarray(start, end))

const signatures: ReadonlyArray<{
  readonly mediaType: string
  readonly begins: (bytes: Uint8Array) => boolean
}> = [
  { mediaType: "image/png", begins: (bytes) => latin1(bytes, 0, 8) === "\u0089PNG\r\n\u001a\n" },
  { mediaType: "image/jpeg", begins: (bytes) => latin1(bytes, 0, 3) === "\u00ff\u00d8\u00ff" },
  { mediaType: "image/gif", begins: (bytes) => /^GIF8[79]a$/.test(latin1(bytes, 0, 6)) },
  {
    mediaType: "image/webp",
    begins: (bytes) => latin1(bytes, 0, 4) === "RIFF" && latin1(bytes, 8, 12) === "WEBP"
  },
  { mediaType: "application/pdf", begins: (bytes) => latin1(bytes, 0, 5) === "%PDF-" }
]
