/**
 * The runtimes that a published package has to work on, as installed by npm: both ends of the supported Node versions, Bun and Deno.
 */
import { spawnSync } from "node:child_process"
import * as Fs from "node:fs"
import * as Path from "node:path"
import { root } from "./run.ts"

export interface Runtime {
  readonly name: string
  /** The words before the name of a program; undefined when the runtime cannot be run. */
  readonly command?: readonly [string, ...ReadonlyArray<string>]
  /** Whether programs may use `await using`. */
  readonly hasUsing: boolean
  /** Why the runtime cannot be run here. */
  readonly missing?: string
}

interface Candidate {
  readonly name: string
  readonly file: string
  readonly args?: ReadonlyArray<string>
  readonly hasUsing?: boolean
}

const candidates: ReadonlyArray<Candidate> = [
  {
    name: "the oldest supported Node",
    file: "scripts/oldest-node/node_modules/node/bin/node",
    hasUsing: false
  },
  { name: "the newest Node", file: "scripts/runtimes/node_modules/node/bin/node" },
  { name: "Bun", file: "node_modules/.bin/bun", args: ["run"] },
  { name: "Deno", file: "node_modules/.bin/deno", args: ["run", "--allow-all", "--no-lock"] }
]

/** Each runtime with its version, or with the reason why it cannot be run here. */
export const findRuntimes = (): ReadonlyArray<Runtime> =>
  candidates.map(({ args = [], file, hasUsing = true, name }) => {
    const path = Path.join(root, file)
    if (!Fs.existsSync(path)) return { name, hasUsing, missing: `npm did not install ${file}` }
    // An npm package of a runtime fetches its binary when it is installed, or has none for this platform.
    const { error, status, stderr, stdout } = spawnSync(path, ["--version"], { encoding: "utf8" })
    const version = /\d+\.\d+\.\d+\S*/.exec(stdout ?? "")?.[0]
    if (status !== 0 || version === undefined) {
      const said = error?.message ?? stderr.trim().split("\n")[0] ?? ""
      return {
        name,
        hasUsing,
        missing: `${file} does not run: ${said === "" ? `it ended with ${status}` : said}`
      }
    }
    return { hasUsing, name: `${name} (${version})`, command: [path, ...args] }
  })
