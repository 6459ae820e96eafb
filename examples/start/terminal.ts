/**
 * Shows a call to a person, and asks for a decision.
 */
import { once } from "node:events"
import { createInterface } from "node:readline/promises"
import { approve, deny, Display } from "@fermata/node"
import { type Answer, BadOption, parseArguments } from "./options.ts"

/**
 * A value as one line of JSON. Text of a model may contain characters that move the cursor, change colours or reorder letters, and so
 * disguise the call. `Display` replaces them with escapes.
 */
export const shown = (value: unknown): string => Display.line(JSON.stringify(value))

/** Whether the program has a terminal for questions. */
export const hasTerminal = (): boolean => process.stdin.isTTY === true && process.stdout.isTTY === true

/** Asks until it gets a valid answer; `undefined` if the person closes the terminal. */
export const ask = async (): Promise<Answer | undefined> => {
  const terminal = createInterface({ input: process.stdin, output: process.stdout })
  const left = once(terminal, "close").then(() => undefined)
  // Ctrl+C and Ctrl+D close the terminal without an answer.
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
