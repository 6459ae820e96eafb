/**
 * Showing a call to a person, and asking what to do about it.
 */
import { once } from "node:events"
import { createInterface } from "node:readline/promises"
import { approve, deny, Display } from "@fermata/node"
import { type Answer, BadOption, parseArguments } from "./options.ts"

/**
 * A value as JSON in one line. What a model wrote could move the cursor, change colours or reorder letters, and show another call
 * than the one that would run: `Display` writes such characters as escapes.
 */
export const shown = (value: unknown): string => Display.line(JSON.stringify(value))

/** Whether somebody can be asked. */
export const hasTerminal = (): boolean => process.stdin.isTTY === true && process.stdout.isTTY === true

/** Asks until there is an answer; `undefined` when the person leaves. */
export const ask = async (): Promise<Answer | undefined> => {
  const terminal = createInterface({ input: process.stdin, output: process.stdout })
  const left = once(terminal, "close").then(() => undefined)
  // Leaving with Ctrl+C or Ctrl+D is no answer.
  const read = () =>
    terminal.question("   run it?   y, n <why>, or e <arguments as JSON>: ").catch(() => undefined)
  try {
    for (;;) {
      const line = await Promise.race([read(), left])
      if (line === undefined) return undefined
      const [, word = "", rest = ""] = /^\s*(\S*)\s*(.*?)\s*$/.exec(line) ?? []
      try {
        if (/^y(es)?$/i.test(word)) return approve()
        if (/^no?$/i.test(word)) return deny(rest === "" ? "Not now." : rest)
        if (/^e(dit)?$/i.test(word)) return approve({ arguments: parseArguments(rest) })
      } catch (error) {
        if (!(error instanceof BadOption)) throw error
        console.log(`             ${Display.line(error.message)}`)
      }
    }
  } finally {
    terminal.close()
  }
}
