/**
 * Filters the output of an MCP server's process by line. Effect's transport ends the connection at a line that is too long or is not JSON.
 * Here, a line that is too long is replaced by an error for the request that it answers and not buffered further, and a line that cannot be
 * a message is dropped, as when a server logs to its standard output.
 */

/** The largest message to or from a server: 16 MiB. */
export const maxMessageBytes = 16 * 1024 * 1024

/** Marks the errors that replace results that were too large. */
const tooLargeMark = "fermata: this result was not read"

/** Whether a response replaces a result that was too large. */
export const isTooLarge = (response: object): boolean =>
  "error" in response && (response.error as { readonly data?: unknown } | undefined)?.data === tooLargeMark

const newline = 10
const quote = 34
const colon = 58
const comma = 44
const backslash = 92
const openers = [123, 91]
const closers = [125, 93]
const encoder = new TextEncoder()
const decoder = new TextDecoder()

/** Longest request id that is recognized, in bytes. The client's ids are numbers. */
const longestToken = 64

/** Scans the bytes of a message for its id, and for a `method`, which requests and notifications have. Buffers nothing else. */
class Envelope {
  id: string | undefined
  hasMethod = false
  private depth = 0
  private inString = false
  private escaped = false
  /** The last string or other value at the top level, and the key that it belongs to. */
  private token: Array<number> = []
  private key: string | undefined

  read(bytes: Uint8Array): void {
    for (const byte of bytes) this.take(byte)
  }

  private take(byte: number): void {
    if (this.inString) {
      if (this.depth === 1) this.collect(byte)
      if (this.escaped) this.escaped = false
      else if (byte === backslash) this.escaped = true
      else if (byte === quote) this.inString = false
      return
    }
    if (openers.includes(byte)) this.depth++
    else if (closers.includes(byte)) {
      if (this.depth === 1) this.endValue()
      this.depth--
    } else if (this.depth === 1 && byte === colon) {
      this.key = this.endToken()
      if (this.key === '"method"') this.hasMethod = true
    } else if (this.depth === 1 && byte === comma) this.endValue()
    else {
      if (this.depth === 1) this.collect(byte)
      if (byte === quote) this.inString = true
    }
  }

  private collect(byte: number): void {
    if (this.token.length <= longestToken) this.token.push(byte)
  }

  private endToken(): string {
    const text = decoder.decode(Uint8Array.from(this.token)).trim()
    this.token = []
    return text
  }

  private endValue(): void {
    const value = this.endToken()
    if (this.key === '"id"' && /^(?:-?\d+|"[^"\\]*")$/.test(value)) this.id = value
    this.key = undefined
  }
}

/**
 * Makes a filter for the output of one process. It takes a chunk and returns the lines that the chunk completes, with their line breaks: without
 * those that cannot be a message, and, in place of one of more than `maxBytes` bytes (default: 16 MiB), an error for the request that it
 * answers, if there is one.
 */
export const make = (
  maxBytes: number = maxMessageBytes
): ((chunk: Uint8Array) => Uint8Array<ArrayBuffer>) => {
  let kept: Array<Uint8Array> = []
  let size = 0
  let skipped: Envelope | undefined
  const keep = (bytes: Uint8Array): void => {
    if (bytes.length === 0) return
    size += bytes.length
    if (skipped === undefined && size > maxBytes) {
      skipped = new Envelope()
      for (const part of kept) skipped.read(part)
      kept = []
    }
    if (skipped === undefined) kept.push(bytes)
    else skipped.read(bytes)
  }
  const endLine = (): Uint8Array => {
    const line = skipped === undefined ? messageIn(joined(kept)) : insteadOf(skipped)
    kept = []
    size = 0
    skipped = undefined
    return line
  }
  return (chunk) => {
    const lines: Array<Uint8Array> = []
    let from = 0
    for (let end = chunk.indexOf(newline); end >= 0; end = chunk.indexOf(newline, from)) {
      keep(chunk.subarray(from, end))
      lines.push(endLine())
      from = end + 1
    }
    // The rest is copied, since the stream may reuse the chunk's memory.
    keep(skipped === undefined ? chunk.slice(from) : chunk.subarray(from))
    return joined(lines)
  }
}

/** Returns the line with its line break if it can be a message, and nothing otherwise. */
const messageIn = (line: Uint8Array): Uint8Array => {
  const first = line.find((byte) => byte > 32)
  return first !== undefined && openers.includes(first)
    ? joined([line, Uint8Array.of(newline)])
    : new Uint8Array()
}

/** The error for the request that a skipped line answers. Skipped requests and notifications of the server get none. */
const insteadOf = ({ hasMethod, id }: Envelope): Uint8Array => {
  if (hasMethod || id === undefined) return new Uint8Array()
  const error = { code: -32000, message: "The result is too large.", data: tooLargeMark }
  return encoder.encode(`{"jsonrpc":"2.0","id":${id},"error":${JSON.stringify(error)}}\n`)
}

const joined = (parts: ReadonlyArray<Uint8Array>): Uint8Array<ArrayBuffer> => {
  const whole = new Uint8Array(parts.reduce((sum, { length }) => sum + length, 0))
  let at = 0
  for (const part of parts) {
    whole.set(part, at)
    at += part.length
  }
  return whole
}
