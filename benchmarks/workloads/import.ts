/**
 * The cost of having a system: the cold import of its main entry, and the size of its installation.
 */
import * as ChildProcess from "node:child_process"
import { closureOf } from "../harness/packages.ts"
import type { Workload } from "../harness/Workload.ts"

interface Cost {
  /** Milliseconds. */
  readonly cpu: number
  /** Milliseconds. */
  readonly wall: number
  /** Megabytes. */
  readonly rss: number
}

/** Imports it in a process that does nothing else. */
const cold = (specifier: string | undefined): Cost => {
  const program = `
    const wall = performance.now(), cpu = process.cpuUsage()
    ${specifier === undefined ? "" : `await import(${JSON.stringify(specifier)})`}
    const spent = process.cpuUsage(cpu)
    console.log(JSON.stringify({
      cpu: (spent.user + spent.system) / 1000, wall: performance.now() - wall, rss: process.memoryUsage().rss / 1e6
    }))
    process.exit(0)`
  const out = ChildProcess.execFileSync(process.execPath, ["--input-type=module", "-e", program], {
    cwd: `${import.meta.dirname}/..`,
    encoding: "utf8"
  })
  // Output of a package while it loads comes before.
  return JSON.parse(out.trimEnd().split("\n").at(-1)!) as Cost
}

export const imports: Workload = {
  name: "import",
  title: "Import",
  what: "The first import of the main entry in a new process, with the files in the system's cache. RSS is the difference to a Node process that imports nothing. The installed size includes the package and all its dependencies, as a registry delivers them. For Fermata, `second entry` is `@fermata/sdk`, without the SQLite store.",
  cases: ["main entry", "second entry"],
  floor: false,
  primary: "cpu",
  columns: [
    { key: "entry", title: "entry" },
    { key: "cpu", title: "CPU, ms" },
    { key: "wall", title: "wall, ms" },
    { key: "rss", title: "RSS, MB" },
    { key: "installed", title: "installed, MB" },
    { key: "packages", title: "packages", digits: 0 }
  ],
  targets: [
    {
      says: "at most the CPU of AI SDK in the same run (ratio)",
      reached: ({ get }) => {
        const ours = get("fermata", "main entry", "cpu")
        const theirs = get("ai", "main entry", "cpu")
        return ours === undefined || theirs === undefined ? undefined : ours / theirs
      },
      most: 1
    },
    {
      says: "at most 50 MB of RSS over bare Node",
      reached: ({ get }) => get("fermata", "main entry", "rss"),
      most: 50
    }
  ],
  measure: async ({ system }, name) => {
    const entry = system.entries[name === "main entry" ? 0 : 1]
    if (entry === undefined) return {}
    // Once to fill the operating system's caches.
    cold(entry)
    const bare = cold(undefined)
    const { cpu, rss, wall } = cold(entry)
    return {
      entry,
      cpu,
      wall,
      rss: rss - bare.rss,
      ...closureOf(name === "main entry" ? system.packages : [entry])
    }
  }
}
