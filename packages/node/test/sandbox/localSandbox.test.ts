import { rmSync } from "node:fs"
import { join } from "node:path"
import { assert, describe, it } from "@effect/vitest"
import { Id, localSandbox, OptionsInvalid } from "@fermata/node"
import * as Effect from "effect/Effect"
import { createIn, sandboxContract } from "./contract.ts"
import { temporaryDirectory } from "./temporaryDirectory.ts"

const subject = Effect.map(temporaryDirectory, ({ workdir }) => ({
  provider: localSandbox(),
  workdir,
  lose: () => Effect.sync(() => rmSync(workdir, { recursive: true }))
}))

sandboxContract("local", subject)

describe("localSandbox", () => {
  it("says that it confines nothing", () => {
    const provider = localSandbox()
    assert.strictEqual(provider.target, "this machine, not confined")
    assert.deepStrictEqual([...provider.capabilities], [])
  })

  it("refuses options that are none", () => {
    const wrong: ReadonlyArray<object> = [
      { root: "." },
      { workdir: "" },
      { env: { A: 1 } },
      { env: { "A=B": "1" } },
      { inheritEnv: "HOME" },
      { readable: [""] },
      { rules: { write: 1 } },
      { network: true }
    ]
    for (const options of wrong)
      assert.throws(() => localSandbox(options), OptionsInvalid.OptionsInvalid, "", JSON.stringify(options))
  })

  it.live("prefers the directory of the runtime to that of its options", () =>
    Effect.gen(function* () {
      const { top, workdir } = yield* temporaryDirectory
      const provider = localSandbox({ workdir: top })
      assert.strictEqual((yield* createIn({ ...(yield* subject), provider, workdir })).workdir, workdir)
      const spec = { runId: Id.RunId.make("run_1"), sessionId: Id.SessionId.make("session_1") }
      assert.strictEqual((yield* provider.create(spec)).workdir, top)
      assert.strictEqual((yield* localSandbox().create(spec)).workdir, process.cwd())
      const missing = yield* Effect.flip(provider.create({ ...spec, workdir: join(top, "missing") }))
      assert.deepInclude(missing, { _tag: "SandboxUnavailable", retryable: true })
      assert.notInclude(missing.message, top)
    })
  )

  it.live("gives commands the variables of the options", () =>
    Effect.gen(function* () {
      const { workdir } = yield* temporaryDirectory
      process.env["SANDBOX_SHARED"] = "shared"
      process.env["SANDBOX_UNSHARED"] = "unshared"
      const provider = localSandbox({ workdir, env: { EXTRA: "extra" }, inheritEnv: ["SANDBOX_SHARED"] })
      const sandbox = yield* createIn({ ...(yield* subject), provider, workdir })
      const { stdout } = yield* sandbox.exec("echo $EXTRA $SANDBOX_SHARED $SANDBOX_UNSHARED")
      assert.strictEqual(stdout, "extra shared\n")
    })
  )

  it.live("fails a command with SandboxLost whose working directory was removed", () =>
    Effect.gen(function* () {
      const { workdir } = yield* temporaryDirectory
      const sandbox = yield* createIn({ ...(yield* subject), provider: localSandbox(), workdir })
      rmSync(workdir, { recursive: true })
      assert.deepInclude({ ...(yield* Effect.flip(sandbox.exec("echo late"))) }, { _tag: "SandboxLost" })
    })
  )

  it.live("starts nothing after its release", () =>
    Effect.gen(function* () {
      const place = yield* subject
      const sandbox = yield* Effect.scoped(createIn(place))
      const error = yield* Effect.flip(sandbox.exec("echo late"))
      assert.deepInclude(error, { _tag: "CommandFailed", notStarted: true })
    })
  )
})
