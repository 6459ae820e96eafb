import { execFileSync } from "node:child_process"
import { join } from "node:path"
import { tmuxSandbox } from "@fermata/node"
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import { sandboxContract } from "./contract.ts"
import { sessionContract } from "./sessions.ts"
import { temporaryDirectory } from "./temporaryDirectory.ts"

const noTmux: string | undefined = (() => {
  try {
    execFileSync("tmux", ["-V"], { stdio: "ignore" })
    return undefined
  } catch {
    return "the program tmux is not installed"
  }
})()

/** A tmux server that ends with the test. */
const server: Effect.Effect<
  { readonly socket: string; readonly workdir: string; readonly kill: Effect.Effect<void> },
  never,
  Scope.Scope
> = Effect.gen(function* () {
  const { top, workdir } = yield* temporaryDirectory
  const socket = join(top, "tmux.sock")
  const kill = Effect.sync(() => {
    try {
      execFileSync("tmux", ["-S", socket, "kill-server"], { stdio: "ignore" })
    } catch {
      // There is no server any more.
    }
  })
  yield* Effect.addFinalizer(() => kill)
  return { socket, workdir, kill }
})

const subject = Effect.map(server, ({ kill, socket, workdir }) => ({
  provider: tmuxSandbox({ socket }),
  workdir,
  lose: () => kill
}))

sandboxContract("tmux", subject, { skip: noTmux, timeoutMs: 60_000 })

sessionContract("tmux", subject, { skip: noTmux })
