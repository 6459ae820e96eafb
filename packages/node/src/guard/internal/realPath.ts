/**
 * Paths without symbolic links, also of files that do not exist yet.
 */
import { lstat, readlink, realpath } from "node:fs/promises"
import { dirname, join, parse, sep } from "node:path"
import { codeOf, denied, type PathDenied } from "./pathErrors.ts"

const maxNameBytes = 255
const maxPathBytes = 4095
/** Deeper directories can be made, but neither removed nor searched by every program. */
const maxNames = 200
/** The limit of Linux. */
const maxLinks = 40

/** Why a text is no path; `undefined` if it is one. Nothing in it is decoded. */
export const malformed = (path: string): PathDenied | undefined => {
  const names = path.split(/[/\\]/)
  const isValid =
    path !== "" &&
    !path.includes("\0") &&
    // A lone surrogate would become another character.
    path.isWellFormed() &&
    Buffer.byteLength(path) <= maxPathBytes &&
    names.length <= maxNames &&
    names.every((name) => Buffer.byteLength(name) <= maxNameBytes) &&
    (process.platform !== "win32" || !isForeignToWindows(path))
  return isValid ? undefined : denied(path, "malformed")
}

/** Streams of files, devices and paths that Windows does not normalize. */
const isForeignToWindows = (path: string): boolean =>
  /^[/\\]{2}[.?]/.test(path) ||
  path.slice(2).includes(":") ||
  path
    .split(/[/\\]/)
    .some((name) => /^(con|prn|aux|nul|conin\$|conout\$|com\d|lpt\d)(\.|$)/i.test(name.trimEnd()))

/**
 * The path without symbolic links of an absolute, normalized path. Links that lead to nothing are followed, too, so that the result is the
 * place where a file would be created.
 */
export const realPathOf = async (path: string, given: string): Promise<string> => {
  try {
    return await realpath(path)
  } catch (cause) {
    if (codeOf(cause) === "ELOOP") throw denied(given, "linkLoop")
    if (codeOf(cause) !== "ENOENT") throw cause
  }
  let real = parse(path).root
  const pending = path.slice(real.length).split(sep).reverse()
  for (let links = 0; pending.length > 0;) {
    const name = pending.pop()
    if (name === undefined || name === "" || name === ".") continue
    if (name === "..") {
      real = dirname(real)
      continue
    }
    const next = join(real, name)
    const target = await linkAt(next)
    if (target === undefined) {
      real = next
      continue
    }
    links += 1
    if (links > maxLinks) throw denied(given, "linkLoop")
    const { root } = parse(target)
    if (root !== "") real = root
    pending.push(...target.slice(root.length).split(sep).reverse())
  }
  return real
}

/** The target of a symbolic link; `undefined` for anything else, and for a file that does not exist. */
const linkAt = async (path: string): Promise<string | undefined> => {
  try {
    return (await lstat(path)).isSymbolicLink() ? await readlink(path) : undefined
  } catch (cause) {
    if (codeOf(cause) === "ENOENT") return undefined
    throw cause
  }
}
