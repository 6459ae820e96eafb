/**
 * The text of a response's bytes, by the encoding that the server, the page or the bytes themselves declare.
 */

/** Where a page declares its encoding (HTML standard, "prescan a byte stream"). */
const declaringBytes = 1024

/**
 * Decodes bytes. `charset` is the parameter of the response's `content-type`; `isMarkup` says that the text may declare its encoding. Never
 * fails: bytes that are not valid become `U+FFFD`.
 */
export const decodeText = (bytes: Uint8Array, charset: string | undefined, isMarkup: boolean): string => {
  for (const label of [markOf(bytes), charset, isMarkup ? declared(bytes) : undefined]) {
    const decoder = label === undefined ? undefined : decoderOf(label)
    if (decoder !== undefined) return decoder.decode(bytes)
  }
  return isUtf8(bytes) ? utf8.decode(bytes) : new TextDecoder("windows-1252").decode(bytes)
}

/** Whether bytes are valid UTF-8. */
export const isUtf8 = (bytes: Uint8Array): boolean => {
  try {
    new TextDecoder("utf-8", { fatal: true }).decode(bytes)
    return true
  } catch {
    return false
  }
}

const utf8 = new TextDecoder()

const markOf = ([first, second, third]: Uint8Array): string | undefined => {
  if (first === 0xef && second === 0xbb && third === 0xbf) return "utf-8"
  if (first === 0xfe && second === 0xff) return "utf-16be"
  return first === 0xff && second === 0xfe ? "utf-16le" : undefined
}

const declared = (bytes: Uint8Array): string | undefined => {
  const head = new TextDecoder("latin1").decode(bytes.subarray(0, declaringBytes))
  const [, label] =
    /<meta\b[^>]*\bcharset\s*=\s*["']?\s*([\w:.+-]+)/i.exec(head) ??
    /^<\?xml\b[^>]*\bencoding\s*=\s*["']([\w:.+-]+)/i.exec(head) ??
    []
  // The declaration could be read, so it is not UTF-16.
  return label !== undefined && /^utf-?16/i.test(label) ? "utf-8" : label
}

const decoderOf = (label: string): InstanceType<typeof TextDecoder> | undefined => {
  try {
    return new TextDecoder(label)
  } catch {
    return undefined
  }
}
