/**
 * Setup of every test file: Node's file functions throw for a file on which this process holds locks. On POSIX, closing such a file
 * drops the locks, and the rest of the test would prove nothing. Works on Linux, where locks can be listed.
 *
 * Another process may read such a file: see `readLive` and `copyLive`.
 */
import Fs from "node:fs"
import { syncBuiltinESMExports } from "node:module"
import { noLocks, ownLocks } from "./locks.ts"

const { statSync } = Fs

/** What the system says of a process. It holds no locks, and is read for each process of the machine. */
const ofProcess = /^\/proc\/\d+\/(stat|environ|cmdline)$/

const isLocked = (path: unknown): boolean => {
  if (typeof path !== "string" && !(path instanceof URL) && !Buffer.isBuffer(path)) return false
  if (typeof path === "string" && ofProcess.test(path)) return false
  const found = statSync(path, { throwIfNoEntry: false })
  if (found?.isFile() !== true) return false
  return ownLocks().some(({ inode }) => inode === String(found.ino))
}

const openers = {
  one: ["open", "readFile", "writeFile", "appendFile", "truncate", "createReadStream", "createWriteStream"],
  two: ["copyFile", "cp"]
}

/** Test files share a process: a function is guarded once. */
const guarded = Symbol.for("@fermata/node/test/lockGuard")

/** Makes a function check its first `paths` arguments. */
const guard = (module: Record<string, unknown>, name: string, paths: number) => {
  const original = module[name]
  if (typeof original !== "function" || guarded in original) return
  const checked = (...args: ReadonlyArray<unknown>): unknown => {
    if (args.slice(0, paths).some(isLocked)) {
      throw new Error(
        `fs.${name} opens a file that this process has locked: closing it drops the locks. Use SQLite, or another process.`
      )
    }
    return original(...args)
  }
  module[name] = Object.assign(checked, original, { [guarded]: true })
}

if (noLocks === undefined) {
  const modules = [Fs, Fs.promises] as unknown as ReadonlyArray<Record<string, unknown>>
  for (const module of modules) {
    for (const name of openers.one) for (const end of ["", "Sync"]) guard(module, name + end, 1)
    for (const name of openers.two) for (const end of ["", "Sync"]) guard(module, name + end, 2)
  }
  syncBuiltinESMExports()
}
