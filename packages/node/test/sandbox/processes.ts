/**
 * The processes of this machine, as `/proc` shows them. Without `/proc`, there are none to see.
 */
import { readdirSync, readFileSync } from "node:fs"

const readText = (path: string): string => {
  try {
    return readFileSync(path, "latin1")
  } catch {
    return ""
  }
}

const pids = (): ReadonlyArray<string> => {
  try {
    return readdirSync("/proc").filter((name) => /^\d+$/.test(name))
  } catch {
    return []
  }
}

/** The processes with a text in their arguments. */
export const processesWith = (text: string): ReadonlyArray<string> =>
  pids().filter((pid) => readText(`/proc/${pid}/cmdline`).includes(text))

/** A process in words, for the message of a failed test. */
export const describeProcess = (pid: string): string =>
  `${pid}: ${readText(`/proc/${pid}/cmdline`).replaceAll("\0", " ").slice(0, 300)}`

/** The ended processes that this one has started and not looked after. */
export const zombies = (): ReadonlyArray<string> =>
  pids().filter((pid) => {
    const stat = readText(`/proc/${pid}/stat`)
    const [state, parent] = stat.slice(stat.lastIndexOf(")") + 2).split(" ")
    return state === "Z" && Number(parent) === process.pid
  })

/** How many files, pipes and sockets this process has open. */
export const openDescriptors = (): number => {
  try {
    return readdirSync("/proc/self/fd").length
  } catch {
    return 0
  }
}
