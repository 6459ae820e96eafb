/**
 * The texts of files and their encodings; detects files that are not text.
 */
import { isUtf8 } from "../decodeText.ts"

export type Encoding = "utf-8" | "utf-8-bom" | "utf-16le" | "utf-16be" | "windows-1252"

/** The text of a file. */
export interface TextFile {
  readonly text: string
  readonly encoding: Encoding
}

/** The names of encodings for the model; UTF-8 is not mentioned. */
export const encodingNames: Readonly<Record<Encoding, string | undefined>> = {
  "utf-8": undefined,
  "utf-8-bom": "UTF-8 with a byte order mark",
  "utf-16le": "UTF-16 (little endian)",
  "utf-16be": "UTF-16 (big endian)",
  "windows-1252": "windows-1252 (Latin), because it is not UTF-8"
}

/** Decodes the bytes of a file; `undefined` if they are not text. */
export const decodeFile = (bytes: Uint8Array): TextFile | undefined => {
  const [first, second, third] = bytes
  if (first === 0xef && second === 0xbb && third === 0xbf)
    return isText(bytes.subarray(3))
      ? { text: utf8.decode(bytes.subarray(3)), encoding: "utf-8-bom" }
      : undefined
  if (first === 0xff && second === 0xfe) return utf16(bytes, "utf-16le")
  if (first === 0xfe && second === 0xff) return utf16(bytes, "utf-16be")
  if (hasControls(bytes)) return undefined
  return isUtf8(bytes)
    ? { text: utf8.decode(bytes), encoding: "utf-8" }
    : { text: new TextDecoder("windows-1252").decode(bytes), encoding: "windows-1252" }
}

/** Encodes a text; `undefined` if the encoding cannot represent all of it. */
export const encodeFile = (text: string, encoding: Encoding): Uint8Array | undefined => {
  switch (encoding) {
    case "utf-8":
      return text.isWellFormed() ? new TextEncoder().encode(text) : undefined
    case "utf-8-bom":
      return text.isWellFormed() ? new TextEncoder().encode(`\uFEFF${text}`) : undefined
    case "utf-16le":
      return Buffer.from(`\uFEFF${text}`, "utf16le")
    case "utf-16be":
      return Buffer.from(`\uFEFF${text}`, "utf16le").swap16()
    case "windows-1252": {
      // The characters that are the same in Latin-1 and windows-1252.
      const bytes = Buffer.from(text, "latin1")
      return new TextDecoder("windows-1252").decode(bytes) === text ? bytes : undefined
    }
  }
}

const utf8 = new TextDecoder("utf-8", { ignoreBOM: true })

const isText = (bytes: Uint8Array): boolean => !hasControls(bytes) && isUtf8(bytes)

const utf16 = (bytes: Uint8Array, encoding: "utf-16le" | "utf-16be"): TextFile | undefined => {
  if (bytes.length % 2 === 1) return undefined
  const text = new TextDecoder(encoding).decode(bytes)
  return controls.test(text) || text.includes("\uFFFD") ? undefined : { text, encoding }
}

// oxlint-disable-next-line no-control-regex
const controls = /[\0-\u0007\u000e-\u001a]/

/** Whether bytes have control characters that no text has. ESC, form feed and backspace are in terminal output. */
export const hasControls = (bytes: Uint8Array): boolean =>
  bytes.some((byte) => byte < 0x08 || (byte > 0x0d && byte < 0x1b))
