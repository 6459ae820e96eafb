/**
 * Measures cost in figures that do not grow when other programs use the machine: milliseconds of CPU of this process, and milliseconds
 * in which its event loop was idle.
 */
import { performance } from "node:perf_hooks"

/** Starts to measure. The returned function gives the figures since then. */
export const timeSpent = (): (() => { readonly cpuMs: number; readonly waitedMs: number }) => {
  const cpu = process.cpuUsage()
  const loop = performance.eventLoopUtilization()
  return () => {
    const { system, user } = process.cpuUsage(cpu)
    return { cpuMs: (user + system) / 1000, waitedMs: performance.eventLoopUtilization(loop).idle }
  }
}
