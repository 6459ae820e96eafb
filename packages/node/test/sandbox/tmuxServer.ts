/**
 * A tmux server for tests.
 */
import { execFileSync } from "node:child_process"
import { join } from "node:path"
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import { temporaryDirectory } from "./temporaryDirectory.ts"

/** Why there is no terminal here; `undefined` if there can be one. */
export const noTmux: string | undefined = (() => {
  try {
    execFileSync("tmux", ["-V"], { stdio: "ignore" })
    return undefined
  } catch {
    return "the program tmux is not installed"
  }
})()

/** A server that ends with the test. */
export interface TmuxServer {
  readonly socket: string
  readonly workdir: string
  /** Runs a command of tmux, and gives its output. */
  readonly tmux: (...args: ReadonlyArray<string>) => string
  readonly kill: Effect.Effect<void>
}

/** A server on a socket of its own. It starts with the first terminal. */
export const tmuxServer: Effect.Effect<TmuxServer, never, Scope.Scope> = Effect.gen(function* () {
  const { top, workdir } = yield* temporaryDirectory
  const socket = join(top, "tmux.sock")
  const tmux = (...args: ReadonlyArray<string>) => execFileSync("tmux", ["-S", socket, ...args]).toString()
  const kill = Effect.sync(() => {
    try {
      execFileSync("tmux", ["-S", socket, "kill-server"], { stdio: "ignore" })
    } catch {
      // There is no server any more.
    }
  })
  yield* Effect.addFinalizer(() => kill)
  return { socket, workdir, tmux, kill }
})
