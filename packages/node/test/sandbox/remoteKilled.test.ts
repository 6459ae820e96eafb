/**
 * Runs whose process is killed while a command runs in their sandbox elsewhere.
 */
import { spawn } from "node:child_process"
import { once } from "node:events"
import { existsSync, readFileSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import { sourceFlags } from "../../../../scripts/internal/sourceFlags.ts"
import { expireLeases } from "../expireLeases.ts"
import { apiKey, daytonaServer } from "./daytonaServer.ts"
import { noSshServer, sshServer } from "./sshServer.ts"
import { temporaryDirectory } from "./temporaryDirectory.ts"
import { noTmux, tmuxServer } from "./tmuxServer.ts"

const program = join(import.meta.dirname, "../programs/remoteShell.ts")

const start = (...args: ReadonlyArray<string>) =>
  spawn(process.execPath, [...sourceFlags, program, ...args], {
    stdio: ["ignore", "pipe", "inherit"]
  })

interface Place {
  readonly options: object
  /** The working directory, on this machine; known when the sandbox exists. */
  readonly workdir: () => string
  /** What is read after the kill, such as the requests that were sent. */
  readonly check?: () => void
}

const kinds: Readonly<
  Record<
    string,
    { readonly skip?: string | undefined; readonly place: Effect.Effect<Place, never, Scope.Scope> }
  >
> = {
  ssh: {
    skip: noSshServer,
    place: Effect.gen(function* () {
      const { options } = yield* sshServer
      const { workdir } = yield* temporaryDirectory
      return { options: { ...options, workdir }, workdir: () => workdir }
    })
  },
  tmux: {
    skip: noTmux,
    place: Effect.map(tmuxServer, ({ socket, workdir }) => ({
      options: { socket, workdir },
      workdir: () => workdir
    }))
  },
  daytona: {
    place: Effect.map(daytonaServer, (server) => ({
      options: { apiKey, apiUrl: server.apiUrl },
      workdir: () => join([...server.boxes.values()][0]!.home, "project"),
      check: () => {
        assert.strictEqual(server.boxes.size, 1)
        const sent = server.requests.filter((request) =>
          /^POST \/ID\/process\/session\/[^/]+\/exec$/.test(request)
        )
        assert.lengthOf(sent, 1)
      }
    }))
  }
}

describe("a run in a sandbox elsewhere whose process is killed", () => {
  for (const [kind, { place, skip }] of Object.entries(kinds))
    it.live.skipIf(skip !== undefined)(
      `attaches to it again in another process, and finds the command that went on, which runs once (${kind}${skip === undefined ? "" : `: ${skip}`})`,
      () =>
        Effect.gen(function* () {
          const { check, options, workdir } = yield* place
          const { top } = yield* temporaryDirectory
          const args = [join(top, "runs.db"), kind, JSON.stringify(options)]
          yield* Effect.promise(async () => {
            const first = start("hold", ...args)
            first.stdout.setEncoding("utf8")
            const [line] = await once(first.stdout, "data")
            assert.strictEqual(line, "started\n")
            assert.strictEqual(readFileSync(join(workdir(), "log"), "utf8"), "start\n")
            first.kill("SIGKILL")
            if (first.exitCode === null && first.signalCode === null) await once(first, "exit")
            expireLeases(args[0]!)
            // The command goes on without a process that follows it.
            writeFileSync(join(workdir(), "go"), "")
            while (!readFileSync(join(workdir(), "log"), "utf8").includes("end"))
              await new Promise((resolve) => setTimeout(resolve, 20))
            const second = start("resume", ...args)
            let output = ""
            second.stdout.setEncoding("utf8").on("data", (text: string) => (output += text))
            await once(second, "close")
            const [status, text, sandbox] = JSON.parse(output)
            assert.strictEqual(status, "completed")
            assert.include(text, "one\\ntwo\\n")
            assert.strictEqual(sandbox.backend, kind)
            assert.strictEqual(readFileSync(join(workdir(), "log"), "utf8"), "start\nend\n")
            assert.isTrue(existsSync(workdir()))
            check?.()
          })
        }).pipe(Effect.scoped),
      180_000
    )
})
