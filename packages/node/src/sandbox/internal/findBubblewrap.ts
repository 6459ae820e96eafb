/**
 * Finds bubblewrap, and finds out by a start whether it works on this machine.
 *
 * Imports nothing but Node, because programs without a sandbox load it, too.
 */
import { execFile, spawnSync } from "node:child_process"
import { accessSync, constants, realpathSync, statSync } from "node:fs"
import { delimiter, isAbsolute, join, sep } from "node:path"

/**
 * The first `bwrap` on `PATH` outside of the given directories, so that an agent cannot replace the program that confines it. Relative
 * entries of `PATH` are ignored. `undefined` if there is none.
 */
export const findBubblewrap = (
  outside: ReadonlyArray<string>,
  path: string = process.env["PATH"] ?? ""
): string | undefined => {
  if (process.platform !== "linux") return undefined
  const directories = outside.map((each) => realOf(each) ?? each)
  for (const directory of path.split(delimiter)) {
    if (!isAbsolute(directory)) continue
    const real = realOf(join(directory, "bwrap"))
    if (real === undefined || directories.some((each) => isIn(each, real) || isIn(each, directory))) continue
    try {
      accessSync(real, constants.X_OK)
      if (statSync(real).isFile()) return real
    } catch {
      continue
    }
  }
  return undefined
}

const realOf = (path: string): string | undefined => {
  try {
    return realpathSync(path)
  } catch {
    return undefined
  }
}

const isIn = (directory: string, path: string) =>
  path === directory || path.startsWith(directory.endsWith(sep) ? directory : directory + sep)

/** The capabilities that the administrator's commands keep, to work on files of other users in the working directory. */
const keptCapabilities = ["CAP_CHOWN", "CAP_DAC_OVERRIDE", "CAP_FOWNER"]

/** bubblewrap leaves the administrator every capability, and other users none. */
const capabilityArguments = (): ReadonlyArray<string> =>
  process.getuid?.() === 0
    ? ["--cap-drop", "ALL", ...keptCapabilities.flatMap((name) => ["--cap-add", name])]
    : []

/** The command gets a session of its own, so that it cannot type into the terminal of this process. */
const namespaces = [
  "--unshare-pid",
  "--unshare-ipc",
  "--unshare-uts",
  "--unshare-cgroup-try",
  "--die-with-parent",
  "--new-session"
]
const kernelDirectories = ["--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc"]

/** The wall without its view: namespaces, capabilities, and the directories of the kernel. */
export const wallArguments = (network: boolean): ReadonlyArray<string> => [
  ...namespaces,
  ...(network ? [] : ["--unshare-net"]),
  ...capabilityArguments(),
  ...kernelDirectories
]

/** Why bubblewrap does not work, in a clause; `undefined` if it works. */
export type Problem = string | undefined

/**
 * The probe exits with this code, which another program under the name of bubblewrap would not return. It also passes the status option,
 * which commands need.
 */
const probe = ["--json-status-fd", "1", "--", "/bin/sh", "-c", "exit 42"]
const isProbed = (code: unknown) => code === 42
const probeMs = 20_000

const known = new Map<string, Problem>()

/**
 * Why bubblewrap does not work on this machine; `undefined` if it does. Starts each program once, which takes about 10 ms, and keeps the
 * answer.
 */
export const problemOfMachine = (outside: ReadonlyArray<string>): Problem => {
  const program = findBubblewrap(outside)
  if (program === undefined) return missingBubblewrap
  if (!known.has(program)) {
    const { status, stderr } = spawnSync(program, [...wallArguments(false), "--tmpfs", "/tmp", ...probe], {
      env: {},
      cwd: "/",
      timeout: probeMs,
      encoding: "utf8",
      stdio: ["ignore", "ignore", "pipe"]
    })
    known.set(program, isProbed(status) ? undefined : refused(stderr))
  }
  return known.get(program)
}

/** The problem of a machine without bubblewrap, and what to do. */
export const missingBubblewrap =
  "bubblewrap is not installed: install the package bubblewrap, or use localSandbox, which confines nothing"

/** The first line of what bubblewrap says, unless it names a place of this machine. */
const refused = (stderr: string): string => {
  const line = /^bwrap: ([^/\n]{1,200})$/m.exec(stderr)?.[1]
  const why = line === undefined ? "" : ` (${line})`
  return `bubblewrap does not work here${why}: allow user namespaces, or use localSandbox, which confines nothing`
}

/** Starts one command behind the wall with a view. Returns why that failed; `undefined` if it did not. */
export const problemOfView = (
  program: string,
  network: boolean,
  view: ReadonlyArray<string>
): Promise<Problem> =>
  new Promise((resolve) => {
    const args = [...wallArguments(network), ...view, ...probe]
    execFile(program, args, { env: {}, cwd: "/", timeout: probeMs }, (error, _, stderr) =>
      resolve(isProbed(error?.code) ? undefined : refused(stderr))
    )
  })
