/**
 * Makes text safe to show to a person, at a terminal or on a page: characters that could change how other text is shown become visible
 * escapes.
 *
 * A model, a tool, a file or another person may have written any part of a sentence. Control characters move the cursor and set
 * colors, direction marks reorder letters, and invisible characters make two names look equal. Error messages, explanations and
 * reports are built with {@link sentence}. The fields of errors, requests and events keep the raw values: pass a field through
 * {@link line} or {@link text} before you show it.
 *
 * @since 0.1.0
 */
import { blank } from "./internal/names.ts"

/** Spaces of unusual widths. Spaces of ordinary text (no-break, narrow no-break, ideographic) are kept. */
const spaces = String.raw`\u1680\u2000-\u200A\u205F`

/** Control, format and separator characters, lone surrogates, and other characters that have no width or no visible shape. */
const unseen = String.raw`[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}${spaces}${blank}]`

/** Variation selectors of emoji and keycaps, which are not escaped. */
const kept = String.raw`(?<=\p{Extended_Pictographic})[\uFE0E\uFE0F]|\uFE0F\u20E3`

const hidden = new RegExp(`(?!${kept})${unseen}`, "gu")

/** Like {@link hidden}, without the line break and the tab. */
const hiddenInText = new RegExp(String.raw`(?![\n\t]|${kept})${unseen}`, "gu")

const short: Readonly<Record<string, string>> = { "\n": "\\n", "\r": "\\r", "\t": "\\t" }

const escape = (character: string): string =>
  short[character] ?? `\\u{${(character.codePointAt(0) ?? 0).toString(16)}}`

/**
 * Escapes a text to one line: a line break becomes `\n`, a direction override `\u{202e}`. Escaping a text twice changes nothing more.
 *
 * **Example** (Showing who decided)
 *
 * ```ts run
 * import { Display } from "@fermata/sdk"
 *
 * const by = "ana\nand the board"
 * console.log(`Approved by ${Display.line(by)}.`) // Approved by ana\nand the board.
 * ```
 */
export const line = (value: string): string => value.replaceAll(hidden, escape)

/** Escapes a text that may have several lines. Like {@link line}, but keeps `\n` and tabs; `\r\n` becomes `\n`. */
export const text = (value: string): string => value.replaceAll("\r\n", "\n").replaceAll(hiddenInText, escape)

/** One word, such as a user name, an address or a path. */
const word = /^[\p{L}\p{M}\p{N}_@+/.:-]{1,64}$/u

/**
 * Formats a party's name for a sentence that a model reads. A plain word of up to 64 characters stays as it is; any other name is
 * quoted and escaped to one line, so that a name cannot be read as words of the sentence.
 */
export const name = (value: string): string =>
  word.test(value) && line(value) === value ? value : `"${line(value).replaceAll('"', '\\"')}"`

/** A value that keeps its line breaks in a {@link sentence}. */
export interface Lines {
  readonly "~fermata/lines": string
}

/** Marks a value of a {@link sentence} that keeps its line breaks, such as a list of issues or a database's message. */
export const lines = (value: string): Lines => ({ "~fermata/lines": text(value) })

/** A value that a {@link sentence} can contain. `undefined` is shown as `undefined`. */
export type Value = string | number | undefined | Lines

/** Template tag for messages: keeps the template's own words, and escapes each value to one line unless it is {@link lines}. */
export const sentence = (words: ReadonlyArray<string>, ...values: ReadonlyArray<Value>): string => {
  let out = words[0] ?? ""
  for (const [index, value] of values.entries()) out += shown(value) + (words[index + 1] ?? "")
  return out
}

const shown = (value: Value): string =>
  typeof value === "object" ? value["~fermata/lines"] : line(String(value))

/** Formats a timestamp in milliseconds as ISO 8601; a number outside the range of dates as the number. */
export const instant = (at: number): string => {
  const time = new Date(at)
  return Number.isNaN(time.getTime()) ? String(at) : time.toISOString()
}

/**
 * The message of an unknown cause: the cause itself if it is a string, the `message` of an error, or its `name`; a fixed text if it has
 * none of these. Never throws. The result is not escaped: show it with {@link line} or {@link text}.
 */
export const messageOf = (cause: unknown): string => {
  try {
    if (typeof cause === "string" && cause !== "") return cause
    if (!(cause instanceof Error)) return "an unknown error"
    const { message, name }: { readonly message: unknown; readonly name: unknown } = cause
    for (const said of [message, name]) if (typeof said === "string" && said !== "") return said
    return "an unknown error"
  } catch {
    return "an error that cannot be shown"
  }
}
