/**
 * The installed packages: their versions, sizes and dependencies.
 */
import * as Fs from "node:fs"
import * as Path from "node:path"

interface Manifest {
  readonly name: string
  readonly version: string
  readonly files?: ReadonlyArray<string>
  readonly dependencies?: Readonly<Record<string, string>>
  readonly peerDependencies?: Readonly<Record<string, string>>
  readonly peerDependenciesMeta?: Readonly<Record<string, { readonly optional?: boolean }>>
}

const here = Path.join(import.meta.dirname, "..")

/** The folder of a package, as Node resolves it from another folder; links are followed. */
const find = (name: string, from: string): string | undefined => {
  for (let folder = from; ; folder = Path.dirname(folder)) {
    const place = Path.join(folder, "node_modules", name)
    if (Fs.existsSync(Path.join(place, "package.json"))) return Fs.realpathSync(place)
    if (folder === Path.dirname(folder)) return undefined
  }
}

const manifestOf = (folder: string): Manifest =>
  JSON.parse(Fs.readFileSync(Path.join(folder, "package.json"), "utf8")) as Manifest

/** Bytes of the files under a folder, without the packages inside it. */
const bytesOf = (folder: string): number => {
  let bytes = 0
  for (const entry of Fs.readdirSync(folder, { withFileTypes: true })) {
    const path = Path.join(folder, entry.name)
    if (entry.isDirectory()) bytes += entry.name === "node_modules" ? 0 : bytesOf(path)
    else if (entry.isFile() && !entry.name.endsWith(".tsbuildinfo")) bytes += Fs.statSync(path).size
  }
  return bytes
}

/** A package of this workspace has more files than are published. */
const publishedBytesOf = (folder: string, { files }: Manifest): number => {
  if (folder.includes(`${Path.sep}node_modules${Path.sep}`) || files === undefined) return bytesOf(folder)
  let bytes = Fs.statSync(Path.join(folder, "package.json")).size
  for (const name of files) {
    const path = Path.join(folder, name)
    if (name.startsWith("!") || !Fs.existsSync(path)) continue
    bytes += Fs.statSync(path).isDirectory() ? bytesOf(path) : Fs.statSync(path).size
  }
  return bytes
}

/** These packages with their dependencies and required peers. */
export const closureOf = (
  names: ReadonlyArray<string>
): { readonly installed: number; readonly packages: number } => {
  const seen = new Set<string>()
  let bytes = 0
  const visit = (name: string, from: string): void => {
    const folder = find(name, from)
    if (folder === undefined || seen.has(folder)) return
    seen.add(folder)
    const manifest = manifestOf(folder)
    bytes += publishedBytesOf(folder, manifest)
    const { dependencies = {}, peerDependencies = {}, peerDependenciesMeta = {} } = manifest
    const needed = Object.keys(peerDependencies).filter(
      (peer) => peerDependenciesMeta[peer]?.optional !== true
    )
    for (const dependency of [...Object.keys(dependencies), ...needed]) visit(dependency, folder)
  }
  for (const name of names) visit(name, here)
  return { installed: bytes / 1e6, packages: seen.size }
}

/** The installed versions; `undefined` for a package that is not installed. */
export const versionOf = (name: string): string | undefined => {
  const folder = find(name, here)
  return folder === undefined ? undefined : manifestOf(folder).version
}
