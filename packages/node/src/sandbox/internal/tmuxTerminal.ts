/**
 * The terminal of a sandbox: a session of a tmux server, whose pane runs a script that starts the commands of a queue.
 *
 * The script takes no keys: a person who attaches sees the commands and their output, and stops them with Ctrl-C, but types nothing into them.
 */
import { constants } from "node:fs"
import { chmod, lstat, mkdir, open, rm } from "node:fs/promises"
import { tmpdir, userInfo } from "node:os"
import { dirname, join } from "node:path"
import * as Effect from "effect/Effect"
import { environment } from "./environment.ts"
import type { TmuxSandboxOptions } from "./remoteOptions.ts"
import { keeper } from "./sessionScripts.ts"
import { collectProgram, HostFailed } from "./shellHost.ts"
import { quote } from "./shellText.ts"

/** `DIRECTORY`: starts the commands of the queue in the directory, each at once. */
const runner = String.raw`
D=$1
stty -echo -ixon 2>/dev/null
T=$(tty)
${keeper}
interrupt() {
  for each in "$D"/*/pid; do
    [ -f "$each" ] && [ ! -f "\${each%/pid}/code" ] && kill -s INT -- "-$(cat "$each")" 2>/dev/null
  done
}
trap interrupt INT
trap '' QUIT TSTP
exec 3<> "$D/queue"
while :; do
  read -r id title <&3 || continue
  case $id in ''|*[!a-z0-9-]*) continue;; esac
  [ -f "$D/$id/command" ] && [ ! -d "$D/$id/started" ] || continue
  printf '\033[1m$ %s\033[0m\n' "$title"
  ( trap '' INT; exec 3>&-; keep "$D/$id" "$T" ) &
done
`.replaceAll("\\${", "${")

/** A terminal by its names. */
export interface Terminal {
  readonly socket: string
  readonly session: string
  /** The directory of all terminals of the server, which only this user can use. */
  readonly base: string
  /** The directory of its queue and of the sessions of its commands. */
  readonly directory: string
}

/** Runs tmux with the variables of commands, so that a new server has no others. */
const tmux = (
  { socket }: Pick<Terminal, "socket">,
  options: TmuxSandboxOptions,
  args: ReadonlyArray<string>
) =>
  collectProgram({
    program: "tmux",
    args: ["-u", "-S", socket, "-f", "/dev/null", ...args],
    env: { ...environment(options), TERM: process.env["TERM"] ?? "xterm-256color" }
  })

/** The names of the terminal of a run. Its files are beside the socket, so that the same options find them. */
export const terminalNamed = (options: TmuxSandboxOptions, hash: string): Terminal => {
  const socket = options.socket ?? join(tmpdir(), `fermata-${userInfo().uid}`, "tmux.sock")
  const base = options.socket === undefined ? dirname(socket) : `${socket}.fermata`
  return { socket, session: `fermata-${hash.slice(0, 12)}`, base, directory: join(base, `tmux-${hash}`) }
}

/** Whether the terminal exists and its script reads the queue. */
export const exists = (terminal: Terminal, options: TmuxSandboxOptions): Effect.Effect<boolean, HostFailed> =>
  Effect.flatMap(tmux(terminal, options, ["has-session", "-t", `=${terminal.session}`]), ({ exitCode }) =>
    exitCode === 0 ? Effect.map(openQueue(terminal), (queue) => queue !== undefined) : Effect.succeed(false)
  )

/** Starts the terminal unless it exists. */
export const ensure = Effect.fnUntraced(function* (
  terminal: Terminal,
  options: TmuxSandboxOptions,
  workdir: string
): Effect.fn.Return<void, HostFailed> {
  yield* Effect.tryPromise({
    try: () => makePrivate(terminal),
    catch: () =>
      new HostFailed("its directory for temporary files belongs to another user: set TMPDIR", true, false)
  })
  if (yield* exists(terminal, options)) return
  const { columns, rows } = options.size ?? { columns: 200, rows: 50 }
  const queue = join(terminal.directory, "queue")
  const line = `[ -p ${quote(queue)} ] || mkfifo -m 600 ${quote(queue)}; exec sh -c ${quote(runner)} sh ${quote(terminal.directory)}`
  yield* tmux(terminal, options, ["kill-session", "-t", `=${terminal.session}`])
  const started = yield* tmux(terminal, options, [
    "new-session",
    "-d",
    "-s",
    terminal.session,
    "-x",
    String(columns),
    "-y",
    String(rows),
    "-c",
    workdir,
    line
  ])
  // Another process may have started it at the same time.
  for (let attempt = 0; attempt < 200; attempt += 1) {
    if (yield* exists(terminal, options)) return
    if (started.exitCode !== 0 && attempt > 20) break
    yield* nap
  }
  return yield* Effect.fail(new HostFailed("tmux did not start a terminal", true))
})

/** Starts the command of an existing session in the terminal: its runner script reads the id from the queue. */
export const enqueue = (
  terminal: Terminal,
  { id, title }: { readonly id: string; readonly title: string }
): Effect.Effect<void, HostFailed> =>
  Effect.flatMap(openQueue(terminal, `${id} ${title}\n`), (written) =>
    written === true ? Effect.void : Effect.fail(new HostFailed("its terminal was closed", true))
  )

/** The visible text of the terminal, without empty lines at its end; `undefined` if there is no terminal. */
export const visibleText = (
  terminal: Terminal,
  options: TmuxSandboxOptions
): Effect.Effect<string | undefined, HostFailed> =>
  Effect.map(
    tmux(terminal, options, ["capture-pane", "-p", "-t", `=${terminal.session}:`]),
    ({ exitCode, stdout }) => (exitCode === 0 ? stdout.toString().replaceAll(/[ \n]+$/g, "") : undefined)
  )

/** Closes the terminal. */
export const close = (terminal: Terminal, options: TmuxSandboxOptions): Effect.Effect<void, HostFailed> =>
  Effect.andThen(
    tmux(terminal, options, ["kill-session", "-t", `=${terminal.session}`]),
    Effect.promise(() => rm(terminal.directory, { recursive: true, force: true }))
  )

/**
 * Opens the queue, and writes the text to it if there is one. Returns `true`, or `undefined` if no terminal reads the queue: a blocking
 * write would then wait for a reader.
 */
const openQueue = (terminal: Terminal, text?: string): Effect.Effect<boolean | undefined> =>
  Effect.promise(async () => {
    try {
      const queue = await open(join(terminal.directory, "queue"), constants.O_WRONLY | constants.O_NONBLOCK)
      try {
        if (text !== undefined) await queue.write(text)
        return true
      } finally {
        await queue.close()
      }
    } catch {
      return undefined
    }
  })

const makePrivate = async ({ base, directory }: Terminal): Promise<void> => {
  await mkdir(base, { recursive: true, mode: 0o700 })
  const stats = await lstat(base)
  if (!stats.isDirectory() || stats.uid !== userInfo().uid) throw new Error("another user's")
  await chmod(base, 0o700)
  await mkdir(directory, { recursive: true, mode: 0o700 })
}

const nap = Effect.callback<void>((resume) => {
  const timer = setTimeout(() => resume(Effect.void), 25)
  return Effect.sync(() => clearTimeout(timer))
})
