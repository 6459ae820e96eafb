/**
 * Builds what is published: declarations by the compiler, one file each, and the JavaScript bundled into a few files. Most of what
 * an import costs is the loader's work per file: what the main entry needs is one file, and that of the domain within it another, for
 * those who import nothing else. The comments are in the sources and the declarations.
 */
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

/** One file for what the domain needs, one for what else the main entry does. */
const chunksOf = (source: string): Pick<OutputOptions, "codeSplitting"> => {
  let main: ReadonlySet<string> | undefined
  let domain: ReadonlySet<string> | undefined
  const name = (id: string, modules: Modules): string | null => {
    domain ??= neededBy(Path.join(source, "domain/index.ts"), modules)
    main ??= neededBy(Path.join(source, "index.ts"), modules)
    return domain.has(id) ? "domain" : main.has(id) ? "main" : null
  }
  return { codeSplitting: { groups: [{ name, debugName: "what the main entry needs" }] } }
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
  for (const entry of Object.values(manifest.exports)) {
    const source = typeof entry === "object" && entry !== null ? entry["@fermata/source"] : undefined
    if (source === undefined) continue
    input[source.replace(/^\.\/src\//, "").replace(/\.ts$/, "")] = Path.join(folder, source)
  }
  const bundle = await rolldown({
    input,
    platform: "neutral",
    // Everything that is not a file of the package itself is somebody else's to bring.
    external: (id) => !id.startsWith(".") && !Path.isAbsolute(id)
  })
  await bundle.write({
    dir: dist,
    format: "esm",
    sourcemap: true,
    comments: { annotation: true, jsdoc: false },
    chunkFileNames: "chunks/[name]-[hash].js",
    ...("domain/index" in input ? chunksOf(Path.join(folder, "src")) : {})
  })
}
