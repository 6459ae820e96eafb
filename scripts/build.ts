/**
 * Builds the published files: declarations by the compiler, one file each, and the JavaScript bundled into a few files. Most of the cost
 * of an import is the loader's work per file, so the modules of the main entry are in one file, and those of the domain within it in
 * another, for programs that import nothing else. The comments are in the sources and the declarations.
 */
import "./internal/help.ts"
import * as Fs from "node:fs"
import * as Path from "node:path"
import { type OutputOptions, rolldown } from "rolldown"
import { root, run } from "./internal/run.ts"

interface Manifest {
  readonly private?: boolean
  readonly exports: Readonly<Record<string, { readonly "@fermata/source"?: string } | string | null>>
}

interface Modules {
  readonly getModuleInfo: (id: string) => { readonly importedIds: ReadonlyArray<string> } | null
}

/** The modules that an entry needs. */
const neededBy = (entry: string, modules: Modules): ReadonlySet<string> => {
  const needed = new Set([entry])
  for (const id of needed) {
    for (const imported of modules.getModuleInfo(id)?.importedIds ?? []) needed.add(imported)
  }
  return needed
}

/**
 * One file for the modules of the domain, one for the other modules of the main entry, and one for each further set of modules that the
 * same entries need. The entries of single namespaces do not count: they share these files. A file also gets the modules that its own
 * modules need, so the files of most entries are filled first.
 */
const chunksOf = (entries: Readonly<Record<string, string>>): Pick<OutputOptions, "codeSplitting"> => {
  const needed = new Map<string, ReadonlySet<string>>()
  const fileOf = (id: string, modules: Modules): readonly [name: string, priority: number] => {
    const names = Object.entries(entries).flatMap(([entry, file]) => {
      const ids = needed.get(entry) ?? neededBy(file, modules)
      needed.set(entry, ids)
      return file !== id && ids.has(id) ? [entry] : []
    })
    if (names.includes("domain/index")) return ["domain", 3]
    if (names.includes("index")) return ["main", 2]
    return [
      names.map((name) => Path.basename(name.replace(/\/index$/, ""))).join("+"),
      names.length > 1 ? 1 : 0
    ]
  }
  const groups = [3, 2, 1, 0].map((priority) => ({
    priority,
    name: (id: string, modules: Modules) => {
      const [name, own] = fileOf(id, modules)
      return own === priority ? name || null : null
    },
    debugName: "what the same entries need"
  }))
  return { codeSplitting: { groups } }
}

const declared = await run("node", ["scripts/tsc.ts", "-b", "packages/node", "packages/ai-sdk"])
if (!declared.ok) {
  console.error(declared.output)
  process.exit(1)
}

for (const name of Fs.readdirSync(Path.join(root, "packages"))) {
  const folder = Path.join(root, "packages", name)
  const manifest = JSON.parse(Fs.readFileSync(Path.join(folder, "package.json"), "utf8")) as Manifest
  if (manifest.private === true) continue
  const dist = Path.join(folder, "dist")
  for (const file of Fs.readdirSync(dist, { recursive: true }).map(String)) {
    if (/\.js(\.map)?$/.test(file)) Fs.rmSync(Path.join(dist, file))
  }
  const input: Record<string, string> = {}
  const shared: Record<string, string> = {}
  for (const [path, entry] of Object.entries(manifest.exports)) {
    const source = typeof entry === "object" && entry !== null ? entry["@fermata/source"] : undefined
    if (source === undefined) continue
    const name = source.replace(/^\.\/src\//, "").replace(/\.ts$/, "")
    input[name] = Path.join(folder, source)
    if (!/[A-Z]/.test(path)) shared[name] = Path.join(folder, source)
  }
  const bundle = await rolldown({
    input,
    platform: "neutral",
    // Every module outside of the package is external.
    external: (id) => !id.startsWith(".") && !Path.isAbsolute(id)
  })
  await bundle.write({
    dir: dist,
    format: "esm",
    sourcemap: true,
    comments: { annotation: true, jsdoc: false },
    chunkFileNames: "chunks/[name]-[hash].js",
    ...chunksOf(shared)
  })
}
