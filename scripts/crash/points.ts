/**
 * The points at which a simulated process can be hit: every statement, every effect of a tool and every model call is a numbered
 * operation, and a point gives a fault to one of them.
 */
import type { FaultySqlClient } from "@fermata/sdk/testing"
import type { Planned } from "../../packages/sdk/src/testing/internal/simulation/points.ts"

/**
 * A fault at an operation, by the operation's number. `place` is the process: 0 is the first, each later one was started after a crash.
 */
export type Point = Planned<FaultySqlClient.Fault>

const letters: { readonly [letter: string]: FaultySqlClient.Fault } = {
  "": "pass",
  b: "crashBefore",
  a: "crashAfter",
  y: "busy",
  f: "full",
  i: "ioError",
  c: "connectionLost",
  l: "lostAcknowledgement"
}

/** The letter of a fault in the name of a point, and the fault of a letter. */
export const letterOf = (fault: FaultySqlClient.Fault): string =>
  Object.keys(letters).find((letter) => letters[letter] === fault) ?? "?"
export const faultOf = (letter: string): FaultySqlClient.Fault | undefined => letters[letter]

/** The faults after which the process continues. */
export const errors: ReadonlyArray<FaultySqlClient.Fault> = [
  "busy",
  "full",
  "ioError",
  "connectionLost",
  "lostAcknowledgement"
]

/** The name of points, by which they can be run again: `37a` or `37a/12b`. */
export const print = (points: ReadonlyArray<Point>): string =>
  points.map(({ fault, time }) => `${time}${letterOf(fault)}`).join("/")

/** Parses such a name. */
export const parse = (text: string): ReadonlyArray<Point> =>
  text.split("/").map((part, process) => {
    const [, time = "", letter = "?"] = /^(\d+)([a-z])$/.exec(part) ?? []
    const fault = faultOf(letter)
    if (fault === undefined) throw new Error(`${text} is no point: write 37a, or 37a/12b for a pair.`)
    return { place: String(process), time: Number(time), fault }
  })
