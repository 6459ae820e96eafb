/**
 * Swaps directories and a file of a workspace for links that lead out of it, in a loop until it is killed. Prints a line when it begins.
 */
import { renameSync, rmSync } from "node:fs"
import { join } from "node:path"

const root = process.argv[2]
if (root === undefined) throw new Error("needs the workspace")

/** Renames, also over what the other process creates meanwhile. */
const rename = (from: string, to: string) => {
  for (;;) {
    try {
      return renameSync(join(root, from), join(root, to))
    } catch {
      removeIfUnused(join(root, to))
    }
  }
}

const removeIfUnused = (path: string) => {
  try {
    rmSync(path, { recursive: true, force: true })
  } catch {
    // The other process has written into it meanwhile.
  }
}

console.log("swapping")
for (;;) {
  for (const name of ["swapped", "swapped-file", "parent/swapped"]) {
    rename(name, `${name}-inside`)
    rename(`${name}-outside`, name)
    rename(name, `${name}-outside`)
    rename(`${name}-inside`, name)
  }
}
