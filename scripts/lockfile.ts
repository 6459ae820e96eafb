/**
 * Completes the lock files (this workspace's and that of `benchmarks`) after `npm install`: adds the binaries of other platforms. npm
 * drops an optional dependency that the registry at hand does not serve, and `npm ci` (11.16 and newer, npm/cli#9846) then refuses the
 * lockfile that npm wrote itself. `--check` writes nothing and fails on a missing entry, or on one that names its registry.
 */
import "./internal/help.ts"
import * as Fs from "node:fs"
import * as Path from "node:path"
import { root } from "./internal/run.ts"

interface Entry {
  readonly version?: string
  readonly resolved?: string
  readonly dev?: boolean
  readonly optional?: boolean
  readonly os?: ReadonlyArray<string>
  readonly cpu?: ReadonlyArray<string>
  readonly libc?: ReadonlyArray<string>
  readonly optionalDependencies?: Readonly<Record<string, string>>
}

/** The platform in a binary's name: `binding-linux-arm64-musl`, or `@deno/linux-x64-glibc`. */
const platform = /[-/](android|darwin|freebsd|linux|openharmony|win32)-([a-z0-9]+)(?:-([a-z]+))?$/

const entryOf = (file: string, name: string, version: string, parent: Entry): Entry => {
  const [, os, cpu, abi = ""] = platform.exec(name) ?? []
  if (os === undefined || cpu === undefined || !/^\d+\.\d+\.\d+/.test(version)) {
    throw new Error(`${file} lacks ${name}@${version}, and its name does not say for which platform it is.`)
  }
  const libc =
    os !== "linux"
      ? undefined
      : abi.startsWith("musl")
        ? "musl"
        : /^g(nu|libc)/.test(abi)
          ? "glibc"
          : undefined
  return {
    version,
    cpu: [cpu],
    ...(parent.dev === true ? { dev: true } : {}),
    ...(libc === undefined ? {} : { libc: [libc] }),
    optional: true,
    os: [os]
  }
}

const isCheck = process.argv.includes("--check")

for (const file of ["package-lock.json", "benchmarks/package-lock.json"]) {
  const path = Path.join(root, file)
  const lock = JSON.parse(Fs.readFileSync(path, "utf8")) as { packages: Record<string, Entry> }
  const missing = new Map<string, Entry>()
  for (const [location, entry] of Object.entries(lock.packages)) {
    for (const [name, version] of Object.entries(entry.optionalDependencies ?? {})) {
      const places = [`${location}/node_modules/${name}`, `node_modules/${name}`]
      if (places.every((place) => lock.packages[place] === undefined))
        missing.set(`node_modules/${name}`, entryOf(file, name, version, entry))
    }
  }
  const resolved = Object.entries(lock.packages).filter(([, entry]) => /^https?:/.test(entry.resolved ?? ""))

  if (isCheck) {
    for (const place of missing.keys()) console.error(`${file} lacks ${place}: run \`npm run lockfile\`.`)
    for (const [place] of resolved) console.error(`${file} says where ${place} was downloaded from.`)
    if (missing.size + resolved.length > 0) process.exitCode = 1
  } else if (missing.size > 0) {
    const entries = Object.entries({ ...lock.packages, ...Object.fromEntries(missing) })
    const packages = Object.fromEntries(entries.toSorted(([a], [b]) => a.localeCompare(b, "en")))
    Fs.writeFileSync(path, `${JSON.stringify({ ...lock, packages }, null, 2)}\n`)
    console.log(`added ${missing.size} entries to ${file}`)
  }
}
