/**
 * Text for a person to read, at a terminal or on a page: characters that could change how the rest is shown are written as visible
 * escapes.
 *
 * A model, a tool, a file or another person may have written any part of a sentence. Control characters move the cursor and set
 * colours, direction marks reorder letters, and invisible characters make two names look like one. Error messages, explanations and
 * reports are built with {@link sentence}; the fields of errors, requests and events keep the raw values, so a program that shows a
 * field passes it through {@link line} or {@link text}.
 *
 * @since 0.1.0
 */
import { blank } from "./internal/names.ts"

/** Spaces of other widths; those that ordinary text has (no break, narrow, ideographic) stay. */
const spaces = String.raw`\u1680\u2000-\u200A\u205F`

/** Control, format and separator characters, lone surrogates, and everything else that takes no room or is drawn as nothing. */
const unseen = String.raw`[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}${spaces}${blank}]`

/** Emoji and keycaps keep their variation. */
const kept = String.raw`(?<=\p{Extended_Pictographic})[\uFE0E\uFE0F]|\uFE0F\u20E3`

const hidden = new RegExp(`(?!${kept})${unseen}`, "gu")

/** The same without the line break and the tab. */
const hiddenInText = new RegExp(String.raw`(?![\n\t]|${kept})${unseen}`, "gu")

const short: Readonly<Record<string, string>> = { "\n": "\\n", "\r": "\\r", "\t": "\\t" }

const escape = (character: string): string =>
  short[character] ?? `\\u{${(character.codePointAt(0) ?? 0).toString(16)}}`

/**
 * A text in one line: a line break is shown as `\n`, a direction override as `\u{202e}`. A text that was escaped stays as it is.
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

/** A text that may have several lines: like {@link line}, with line breaks and tabs as they are. */
export const text = (value: string): string => value.replaceAll("\r\n", "\n").replaceAll(hiddenInText, escape)

/** One word, such as a user name, an address or a path. */
const word = /^[\p{L}\p{M}\p{N}_@+/.:-]{1,64}$/u

/**
 * The name of a party in a sentence that a model reads: a plain word as it is, anything else in quotes and in one line, so that no name
 * passes for words of the sentence.
 */
export const name = (value: string): string =>
  word.test(value) && line(value) === value ? value : `"${line(value).replaceAll('"', '\\"')}"`

/** A value that keeps its line breaks in a {@link sentence}. */
export interface Lines {
  readonly "~fermata/lines": string
}

/** Lets a value keep its line breaks in a {@link sentence}: a list of issues, what a database reported. */
export const lines = (value: string): Lines => ({ "~fermata/lines": text(value) })

/** What a {@link sentence} is made of besides its words. */
export type Value = string | number | undefined | Lines

/** Tags a template: the words stay as they are, and each value is shown in one line, unless it is {@link lines}. */
export const sentence = (words: ReadonlyArray<string>, ...values: ReadonlyArray<Value>): string => {
  let out = words[0] ?? ""
  for (const [index, value] of values.entries()) out += shown(value) + (words[index + 1] ?? "")
  return out
}

const shown = (value: Value): string =>
  typeof value === "object" ? value["~fermata/lines"] : line(String(value))

/** A time as a sentence has it: ISO 8601, or the number itself where it is no time. */
export const instant = (at: number): string => {
  const time = new Date(at)
  return Number.isNaN(time.getTime()) ? String(at) : time.toISOString()
}

/** What an unknown error says; never throws, whatever the error is. Raw: show it with {@link line} or {@link text}. */
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
