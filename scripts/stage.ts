/**
 * Runs around `npm pack` in a package's folder: `add` copies the license, AGENTS.md and the examples beside the package's own
 * files, so that they are in the tarball; `remove` deletes the copies. The originals are at the root.
 */
import * as Fs from "node:fs"
import * as Path from "node:path"

const root = Path.join(import.meta.dirname, "..")
const shipped = ["LICENSE", "AGENTS.md", "examples"]

for (const name of shipped) {
  const target = Path.resolve(name)
  Fs.rmSync(target, { recursive: true, force: true })
  if (process.argv[2] === "add") {
    Fs.cpSync(Path.join(root, name), target, {
      recursive: true,
      // The examples' own package.json belongs to the workspace.
      filter: (path) => !/node_modules|package\.json$/.test(Path.relative(root, path))
    })
  }
}
