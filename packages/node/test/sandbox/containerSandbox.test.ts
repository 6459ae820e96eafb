import { chmodSync, existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { assert, describe, it } from "@effect/vitest"
import { type ContainerSandboxOptions, containerSandbox, OptionsInvalid } from "@fermata/node"
import * as Effect from "effect/Effect"
import * as Scope from "effect/Scope"
import { createIn, fewTries, sandboxContract, type Subject } from "./contract.ts"
import { processesWith } from "./processes.ts"
import { temporaryDirectory } from "./temporaryDirectory.ts"

const program = join(import.meta.dirname, "../programs/containers/docker")

/** The directory of the containers of a test, which the client takes as its configuration. */
const containers = Effect.gen(function* () {
  const { top, workdir } = yield* temporaryDirectory
  const root = join(top, "containers")
  mkdirSync(root)
  const client = join(top, "docker")
  writeFileSync(client, `#!/bin/sh\nDOCKER_CONFIG='${root}' exec '${program}' "$@"\n`)
  chmodSync(client, 0o755)
  return { root, workdir, client }
})

const subject = Effect.map(containers, ({ client, root, workdir }): Subject => ({
  provider: containerSandbox({ image: "debian:12", program: client }),
  workdir,
  lose: () => Effect.sync(() => rmSync(root, { recursive: true }))
}))

sandboxContract("container", subject, {
  timeoutMs: 60_000,
  // Each stop searches all processes of the machine, of which a container shows few.
  cancels: fewTries,
  skip: existsSync("/proc/self/stat") ? undefined : "its containers are processes of Linux"
})

const opened = (options: ContainerSandboxOptions = { image: "debian:12" }) =>
  Effect.gen(function* () {
    const { client, root, workdir } = yield* containers
    const provider = containerSandbox({ ...options, program: client })
    const lose = () => Effect.void
    const made = () =>
      readFileSync(
        join(
          root,
          readdirSync(root).find((name) => name.startsWith("fermata-"))!,
          "made"
        ),
        "utf8"
      )
    return { root, workdir, provider, made, open: createIn({ provider, workdir, lose }) }
  })

describe("containerSandbox", () => {
  it("says where it acts, and what confines it", () => {
    const describe = (options: ContainerSandboxOptions) => {
      const { capabilities, target } = containerSandbox(options)
      return [target, [...capabilities].join(" ")]
    }
    assert.deepStrictEqual(describe({ image: "node:24" }), [
      "a container of node:24, without network",
      "isolated noNetwork sessions"
    ])
    assert.deepStrictEqual(describe({ image: "node:24", network: true }), [
      "a container of node:24, with network",
      "isolated sessions"
    ])
    assert.deepStrictEqual(describe({ container: "build" }), ["the container build", "sessions"])
  })

  it("refuses options that are none", () => {
    const wrong: ReadonlyArray<object> = [
      {},
      { image: "a", container: "b" },
      { container: "b", mount: "/srv" },
      { container: "b", network: true },
      { image: "--privileged" },
      { image: "a", mount: "srv" },
      { image: "a", mount: "/srv,readonly=false" },
      { image: "a", runArgs: "x" },
      { image: "a", ports: [80] }
    ]
    for (const options of wrong)
      assert.throws(
        () => containerSandbox(options),
        OptionsInvalid.OptionsInvalid,
        "",
        JSON.stringify(options)
      )
  })

  it.live("makes a container without network and without new privileges, with the options", () =>
    Effect.gen(function* () {
      const plain = yield* opened()
      yield* plain.open
      assert.include(plain.made(), "--security-opt no-new-privileges --network none")
      assert.notInclude(plain.made(), "--user")
      const mount = "/srv/checkout"
      const mounted = yield* opened({ image: "debian:12", mount, network: true, runArgs: ["--memory=1g"] })
      yield* mounted.open
      const user = `--user ${process.getuid?.()}:${process.getgid?.()}`
      const bind = `--mount type=bind,source=${mount},target=${mounted.workdir}`
      assert.include(mounted.made(), `${user} ${bind}`)
      assert.include(mounted.made(), "--memory=1g")
      assert.notInclude(mounted.made(), "--network")
    })
  )

  it.live("starts a stopped container, and is lost without one", () =>
    Effect.gen(function* () {
      const { open, provider, root } = yield* opened()
      const { ref } = yield* open
      const name = readdirSync(root).find((each) => each.startsWith("fermata-"))!
      rmSync(join(root, name, "running"))
      assert.strictEqual((yield* (yield* provider.attach(ref)).exec("echo again")).stdout, "again\n")
      yield* provider.destroy(ref)
      assert.isFalse(existsSync(join(root, name)))
      yield* provider.destroy(ref)
      assert.strictEqual((yield* Effect.flip(provider.attach(ref)))._tag, "SandboxLost")
    })
  )

  it.live("goes on with a command whose client was lost, and runs it once", () =>
    Effect.gen(function* () {
      const { open, provider, workdir } = yield* opened()
      const line = "echo x >> started; until [ -e go ]; do sleep 0.05; done; echo done"
      const scope = yield* Scope.make()
      const { ref } = yield* Effect.gen(function* () {
        const sandbox = yield* open
        yield* Effect.forkIn(sandbox.exec(line, { session: "call_1" }), scope)
        while (!existsSync(join(workdir, "started"))) yield* Effect.sleep("10 millis")
        return sandbox
      })
      // Every client of the commands, as `kill -9` of this process would end them.
      for (const pid of processesWith(program)) process.kill(Number(pid), "SIGKILL")
      const attached = yield* provider.attach(ref)
      assert.deepInclude(yield* attached.findCommand("call_1"), { _tag: "running" })
      writeFileSync(join(workdir, "go"), "")
      assert.strictEqual((yield* attached.exec(line, { session: "call_1" })).stdout, "done\n")
      assert.strictEqual(readFileSync(join(workdir, "started"), "utf8"), "x\n")
    })
  )

  it.live("acts in a container of the program, and never removes it", () =>
    Effect.gen(function* () {
      const { open, provider, root } = yield* opened({ container: "build" })
      const missing = yield* Effect.flip(open)
      assert.deepInclude(missing, { _tag: "SandboxUnavailable", problem: "its container is not running" })
      mkdirSync(join(root, "build/home"), { recursive: true })
      writeFileSync(join(root, "build/running"), "")
      const sandbox = yield* open
      assert.strictEqual((yield* sandbox.exec("echo hello")).stdout, "hello\n")
      yield* provider.destroy(sandbox.ref)
      assert.isTrue(existsSync(join(root, "build/running")))
      const other = containerSandbox({ container: "other" })
      assert.strictEqual((yield* Effect.flip(other.attach(sandbox.ref)))._tag, "SandboxUnavailable")
    })
  )

  it.live("is not available, and says what to do, if the engine or the image is missing", () =>
    Effect.gen(function* () {
      const { open, root } = yield* opened({ image: "missing:1" })
      assert.deepInclude(yield* Effect.flip(open), {
        retryable: false,
        problem: "its image does not exist: build it, or name another one"
      })
      writeFileSync(join(root, "down"), "")
      assert.deepInclude(yield* Effect.flip(open), {
        retryable: true,
        problem: "its engine does not answer: start it"
      })
      const none = containerSandbox({ image: "a", program: "/nowhere/docker" })
      const error = yield* Effect.flip(createIn({ provider: none, lose: () => Effect.void }))
      assert.strictEqual(error._tag, "SandboxUnavailable")
      assert.notInclude(error.message, root)
    })
  )
})
