/**
 * The output of an MCP server's process, line by line and bounded. Effect's transport ends a connection for good at a line that is too
 * long or is no JSON. Here such a line concerns its own call alone: one that is too long is replaced, while it is still arriving, by an
 * error for the request that it answers, and one that cannot be a message (a server that logs to its standard output) is skipped.
 */

/** Largest message of a server, and of a request to it: 16 MiB. */
export const maxMessageBytes = 16 * 1024 * 1024

/** Marks the errors that stand for a result that was not read. */
const tooLargeMark = "fermata: this result was not read"

/** Whether the response stands for a result that was too large. */
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

/** Longest id of a request that is read; ours are numbers. */
const longestToken = 64

/** Reads the id of a message, and whether it is a request or a notification, from its bytes as they pass. Keeps none of the rest. */
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

/** Takes the chunks of a server's output and gives its whole lines. One for each process. */
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
    // The rest outlives the chunk, whose memory belongs to the stream.
    keep(skipped === undefined ? chunk.slice(from) : chunk.subarray(from))
    return joined(lines)
  }
}

/** The line if it can be a message, with its end; otherwise nothing. */
const messageIn = (line: Uint8Array): Uint8Array => {
  const first = line.find((byte) => byte > 32)
  return first !== undefined && openers.includes(first)
    ? joined([line, Uint8Array.of(newline)])
    : new Uint8Array()
}

/** An error for the request that a skipped line answers. Requests and notifications of the server are skipped without a word. */
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
