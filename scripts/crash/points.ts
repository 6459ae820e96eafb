/**
 * Where a simulated process can be hit: every statement, every effect of a tool and every model call is a numbered operation,
 * and a point says what happens at one of them.
 */
import type { FaultySqlClient } from "@fermata/sdk/testing"

/** Something that happens at an operation. */
export interface Point {
  /** Which process: 0 is the first, each later one was started after a crash. */
  readonly process: number
  /** The operation's number in that process, from 1. */
  readonly operation: number
  readonly fault: FaultySqlClient.Fault
}

const letters: { readonly [letter: string]: FaultySqlClient.Fault } = {
  b: "crashBefore",
  a: "crashAfter",
  y: "busy",
  f: "full",
  i: "ioError",
  c: "connectionLost",
  l: "lostAcknowledgement"
}

/** The faults after which the process goes on. */
export const errors: ReadonlyArray<FaultySqlClient.Fault> = [
  "busy",
  "full",
  "ioError",
  "connectionLost",
  "lostAcknowledgement"
]

/** A name by which the point can be asked for again, such as `37a` or `37a/12b`. */
export const print = (points: ReadonlyArray<Point>): string =>
  points
    .map(({ fault, operation }) => {
      const letter = Object.keys(letters).find((letter) => letters[letter] === fault) ?? "?"
      return `${operation}${letter}`
    })
    .join("/")

/** Reads such a name. */
export const parse = (text: string): ReadonlyArray<Point> =>
  text.split("/").map((part, process) => {
    const [, operation = "", letter = ""] = /^(\d+)([a-z])$/.exec(part) ?? []
    const fault = letters[letter]
    if (fault === undefined) throw new Error(`${text} is no point: write 37a, or 37a/12b for a pair.`)
    return { process, operation: Number(operation), fault }
  })
