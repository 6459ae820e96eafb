import { execFileSync } from "node:child_process"
import { randomUUID } from "node:crypto"
import { rmSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { assert, describe, it } from "@effect/vitest"
import { Id, OptionsInvalid, sshSandbox } from "@fermata/node"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import { createIn, fewTries, sandboxContract } from "./contract.ts"
import { sessionContract } from "./sessions.ts"
import { noSshServer, sharedSshServer, type SshServer, sshServer } from "./sshServer.ts"
import { temporaryDirectory } from "./temporaryDirectory.ts"

const subjectOf = (server: SshServer) =>
  Effect.map(temporaryDirectory, ({ workdir }) => ({
    provider: sshSandbox(server.options),
    workdir,
    // What Fermata stores on a host is by the id of the run.
    runId: Id.RunId.make(`run_${randomUUID()}`),
    lose: () => Effect.sync(() => rmSync(workdir, { recursive: true }))
  }))

const shared = sharedSshServer()

const subject = Effect.flatMap(shared, subjectOf)

sandboxContract("ssh", subject, { skip: noSshServer, cancels: fewTries, timeoutMs: 120_000 })

sessionContract("ssh", subject, { skip: noSshServer, timeoutMs: 120_000 })

const timeoutMs = 120_000

describe("the options of sshSandbox", () => {
  it("say where commands run", () => {
    const provider = sshSandbox({ host: "build.internal", user: "agent", port: 2222 })
    assert.strictEqual(provider.target, "agent@build.internal:2222 over ssh, not confined")
    assert.strictEqual(provider.isRemote, true)
  })

  it("are refused if they are none, or if ssh or a shell would take a host for something else", () => {
    const wrong: ReadonlyArray<object> = [
      {},
      { host: "" },
      { host: "-oProxyCommand=touch x" },
      { host: "a b" },
      { host: "a;b" },
      { host: "a\nb" },
      { host: "h", user: "-l" },
      { host: "h", port: 0 },
      { host: "h", port: "22" },
      { host: "h", password: "x" }
    ]
    for (const options of wrong)
      assert.throws(
        () => sshSandbox(options as never),
        OptionsInvalid.OptionsInvalid,
        "",
        JSON.stringify(options)
      )
  })
})

describe.skipIf(noSshServer !== undefined)(
  `sshSandbox${noSshServer === undefined ? "" : `: ${noSshServer}`}`,
  () => {
    it.live(
      "does not connect to a host whose key is unknown or is another one, and says what to do",
      () =>
        Effect.gen(function* () {
          const server = yield* shared
          const { workdir } = yield* subjectOf(server)
          const knownHosts = join(server.directory, "other_hosts")
          const other = execFileSync("cat", [join(server.directory, "user_key.pub")]).toString()
          for (const content of ["", `[127.0.0.1]:${server.options.port} ${other}`]) {
            writeFileSync(knownHosts, content)
            const provider = sshSandbox({
              ...server.options,
              sshOptions: [`UserKnownHostsFile=${knownHosts}`]
            })
            const error = yield* Effect.flip(createIn({ provider, workdir, lose: () => Effect.void }))
            assert.deepInclude({ ...error }, { _tag: "SandboxUnavailable", retryable: false })
            assert.include(error.message, "add the right one to the known hosts")
            assert.notInclude(error.message, server.directory)
          }
        }).pipe(Effect.scoped),
      timeoutMs
    )

    it.live(
      "says whether the login was refused, or the host cannot be reached now",
      () =>
        Effect.gen(function* () {
          const server = yield* sshServer
          const { provider, workdir } = yield* subjectOf(server)
          const stranger = sshSandbox({ ...server.options, identityFile: join(server.directory, "host_key") })
          const refused = yield* Effect.flip(
            createIn({ provider: stranger, workdir, lose: () => Effect.void })
          )
          assert.deepInclude({ ...refused }, { _tag: "SandboxUnavailable", retryable: false })
          assert.include(refused.message, "refused the login")
          yield* server.stop
          const down = yield* Effect.flip(createIn({ provider, workdir, lose: () => Effect.void }))
          assert.deepInclude({ ...down }, { _tag: "SandboxUnavailable", retryable: true })
        }).pipe(Effect.scoped),
      timeoutMs
    )

    it.live(
      "goes on with a command after its connection was lost, and loses nothing of its output",
      () =>
        Effect.gen(function* () {
          const server = yield* sshServer
          const sandbox = yield* Effect.flatMap(subjectOf(server), createIn)
          const ready = yield* Deferred.make<void>()
          const line = "echo one; until [ -e go ]; do sleep 0.05; done; echo two; exit 3"
          const running = yield* Effect.forkScoped(
            sandbox.exec(line, { onOutput: () => Deferred.doneUnsafe(ready, Effect.void) })
          )
          yield* Deferred.await(ready)
          yield* server.cut
          yield* sandbox.files.writeFileString("go", "")
          assert.deepInclude(yield* Fiber.join(running), { exitCode: 3, stdout: "one\ntwo\n" })
        }).pipe(Effect.scoped),
      timeoutMs
    )

    it.live(
      "runs more commands at once than a connection of the server has sessions",
      () =>
        Effect.gen(function* () {
          const server = yield* shared
          const sandbox = yield* Effect.flatMap(subjectOf(server), createIn)
          const all = Array.from({ length: 14 }, (_, at) =>
            sandbox.exec(
              `echo > ready-${at}; until [ -e ready-0 ] && [ -e ready-9 ]; do sleep 0.05; done; echo ${at}`
            )
          )
          const results = yield* Effect.all(all, { concurrency: "unbounded" })
          assert.deepStrictEqual(
            results.map(({ stderr, stdout }) => [stdout, stderr]),
            Array.from({ length: 14 }, (_, at) => [`${at}\n`, ""])
          )
        }).pipe(Effect.scoped),
      timeoutMs
    )

    it.live(
      "does not attach to a sandbox of another host",
      () =>
        Effect.gen(function* () {
          const server = yield* shared
          const { provider, workdir } = yield* subjectOf(server)
          const { ref } = yield* createIn({ provider, workdir, lose: () => Effect.void })
          const other = sshSandbox({ ...server.options, host: "localhost" })
          const error = yield* Effect.flip(other.attach(ref))
          assert.deepInclude({ ...error }, { _tag: "SandboxUnavailable", retryable: false })
        }).pipe(Effect.scoped),
      timeoutMs
    )
  }
)
