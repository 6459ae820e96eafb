/**
 * Runs around `npm pack` in a package's folder: `add` copies the license, USING.md as AGENTS.md, the examples and, if the package publishes
 * it, the documentation beside the package's own files, so that they are in the tarball; `remove` deletes the copies.
 */
import * as Fs from "node:fs"
import * as Path from "node:path"

const root = Path.join(import.meta.dirname, "..")
const { files } = JSON.parse(Fs.readFileSync("package.json", "utf8")) as {
  readonly files: ReadonlyArray<string>
}
/** The copies and their originals at the root. npm packs a license in every case. */
const originals: Readonly<Record<string, string>> = {
  LICENSE: "LICENSE",
  "AGENTS.md": "USING.md",
  examples: "examples",
  docs: "docs"
}

for (const [name, original] of Object.entries(originals)) {
  if (name !== "LICENSE" && !files.includes(name)) continue
  const target = Path.resolve(name)
  Fs.rmSync(target, { recursive: true, force: true })
  if (process.argv[2] === "add") {
    Fs.cpSync(Path.join(root, original), target, {
      recursive: true,
      // The examples' own package.json belongs to the workspace.
      filter: (path) => !/node_modules|package\.json$/.test(Path.relative(root, path))
    })
  }
}
