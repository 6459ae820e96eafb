/**
 * The file tools in each kind of sandbox: what is done there is what is done on this machine.
 */
import { execFileSync } from "node:child_process"
import { chmodSync, existsSync, mkdirSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { assert, describe, it } from "@effect/vitest"
import {
  bubblewrapSandbox,
  containerSandbox,
  daytonaSandbox,
  Id,
  localSandbox,
  type SandboxProvider,
  sshSandbox,
  tmuxSandbox,
  workspaceTools
} from "@fermata/node"
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import { withoutBubblewrap } from "../sandbox/bubblewrap.ts"
import { apiKey, daytonaServer } from "../sandbox/daytonaServer.ts"
import { noSshServer, sshServer } from "../sandbox/sshServer.ts"
import { temporaryDirectory } from "../sandbox/temporaryDirectory.ts"
import { caller } from "./calling.ts"

interface Subject {
  readonly provider: SandboxProvider.Shape
  /** Default: the provider's own. */
  readonly workdir?: string
}

/** A provider of one open sandbox for all runs: each call of the test is a run, and would open one. */
const shared = ({ provider, workdir }: Subject) =>
  Effect.map(
    provider.create({
      runId: Id.RunId.make("run_shared"),
      sessionId: Id.SessionId.make("session_shared"),
      ...(workdir === undefined ? {} : { workdir })
    }),
    (sandbox): SandboxProvider.Shape => ({
      ...provider,
      create: () => Effect.succeed(sandbox),
      attach: () => Effect.succeed(sandbox)
    })
  )

const noTmux = ((): string | undefined => {
  try {
    execFileSync("tmux", ["-V"], { stdio: "ignore" })
    return undefined
  } catch {
    return "the program tmux is not installed"
  }
})()

const subjects: Readonly<
  Record<string, readonly [Effect.Effect<Subject, unknown, Scope.Scope>, skipped?: string | undefined]>
> = {
  "on this machine": [
    Effect.map(temporaryDirectory, ({ workdir }) => ({ provider: localSandbox(), workdir }))
  ],
  "of bubblewrap": [
    Effect.map(temporaryDirectory, ({ workdir }) => ({ provider: bubblewrapSandbox(), workdir })),
    withoutBubblewrap
  ],
  "of ssh": [
    Effect.gen(function* () {
      const { options } = yield* sshServer
      return { provider: sshSandbox(options), workdir: (yield* temporaryDirectory).workdir }
    }),
    noSshServer
  ],
  "of tmux": [
    Effect.gen(function* () {
      const { top, workdir } = yield* temporaryDirectory
      const socket = join(top, "tmux.sock")
      yield* Effect.addFinalizer(() =>
        Effect.sync(() => {
          try {
            execFileSync("tmux", ["-S", socket, "kill-server"], { stdio: "ignore" })
          } catch {
            // It has ended.
          }
        })
      )
      return { provider: tmuxSandbox({ socket }), workdir }
    }),
    noTmux
  ],
  "of a container": [
    Effect.gen(function* () {
      const { top, workdir } = yield* temporaryDirectory
      const root = join(top, "containers")
      mkdirSync(root)
      const program = join(import.meta.dirname, "../programs/containers/docker")
      const client = join(top, "docker")
      writeFileSync(client, `#!/bin/sh\nDOCKER_CONFIG='${root}' exec '${program}' "$@"\n`)
      chmodSync(client, 0o755)
      return { provider: containerSandbox({ image: "debian:12", program: client }), workdir }
    }),
    existsSync("/proc/self/stat") ? undefined : "its containers are processes of Linux"
  ],
  "of Daytona": [
    Effect.map(daytonaServer, ({ apiUrl }) => ({ provider: daytonaSandbox({ apiKey, apiUrl }) }))
  ]
}

describe.each(Object.entries(subjects))("the file tools in a sandbox %s", (_, [subject, skipped]) => {
  it.live.skipIf(skipped !== undefined)(
    "write, edit, read, list and search, and ask or refuse as on this machine",
    () =>
      Effect.gen(function* () {
        const provider = yield* Effect.flatMap(subject, shared)
        const call = yield* caller({ tools: workspaceTools({ shell: false }), sandbox: provider })
        const approved = { decide: "approve" } as const
        const write = (path: string, content: string) => call("write_file", { path, content }, approved)

        const created = yield* write("src/dünn/a b.ts", "one\r\ntwo 😀\r\n")
        assert.strictEqual(created.result, "Created src/dünn/a b.ts: 2 lines, 15 bytes.")
        assert.include(created.asked?.preview ?? "", `(${provider.target})\nNew: 2 lines, 15 bytes\n`)
        const edits = [{ oldText: "one\ntwo", newText: "two\none" }]
        const edited = yield* call("edit_file", { path: "src/dünn/a b.ts", edits }, approved)
        assert.include(edited.asked?.preview ?? "", "-one\n-two 😀\n+two\n+one 😀")
        const read = yield* call("read_file", { path: "src/dünn/a b.ts" })
        assert.strictEqual(read.result, "     1\ttwo\n     2\tone 😀\n[Its lines end with CR LF.]")

        yield* write(".gitignore", "out/\n")
        yield* write("out/x.txt", "one\n")
        assert.strictEqual(
          (yield* call("search_files", { pattern: "^one" })).result,
          "src/dünn/a b.ts\n  2: one 😀\n[1 match in 1 file.]"
        )
        assert.strictEqual(
          (yield* call("list_dir", { depth: 3 })).result,
          ".gitignore\t5 bytes\nout/\nout/x.txt\t4 bytes\nsrc/\nsrc/dünn/\nsrc/dünn/a b.ts\t15 bytes"
        )

        const hook = yield* write(".git/hooks/pre-commit", "#!/bin/sh\n")
        assert.include(hook.asked?.preview ?? "", "EXECUTED LATER: version control")
        assert.strictEqual(hook.outcome, "completed")
        assert.include((yield* write(".env", "MODE=1\n")).asked?.risk ?? "", "credentials")
        assert.isDefined((yield* call("read_file", { path: ".env" })).asked)
        for (const path of ["../x", "/etc/hosts", ""]) {
          const refused = yield* call("write_file", { path, content: "x" })
          assert.deepStrictEqual([refused.asked, refused.outcome], [undefined, "failed"], path)
          assert.strictEqual((yield* call("read_file", { path })).outcome, "failed", path)
        }
        const missing = yield* call("read_file", { path: "none.txt" })
        assert.include(missing.result, 'The path "none.txt" does not exist')
        const directory = yield* call("read_file", { path: "src" })
        assert.include(directory.result, 'The path "src" is a directory')
      }),
    // Each file operation over ssh is a command there.
    { timeout: 300_000 }
  )
})
