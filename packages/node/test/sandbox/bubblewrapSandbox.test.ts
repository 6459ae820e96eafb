import {
  chmodSync,
  existsSync,
  mkdirSync,
  readFileSync,
  realpathSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync
} from "node:fs"
import { createServer } from "node:net"
import { join } from "node:path"
import { assert, describe, it } from "@effect/vitest"
import { type BubblewrapSandboxOptions, bubblewrapSandbox, OptionsInvalid } from "@fermata/node"
import * as Effect from "effect/Effect"
import * as ChildProcess from "effect/process/ChildProcess"
import * as Stream from "effect/Stream"
import { findBubblewrap } from "../../src/sandbox/internal/findBubblewrap.ts"
import { withoutBubblewrap } from "./bubblewrap.ts"
import { createIn, sandboxContract } from "./contract.ts"
import { processesWith } from "./processes.ts"
import { temporaryDirectory } from "./temporaryDirectory.ts"
import { withVariables } from "./withVariables.ts"

const lose = () => Effect.void

const subject = Effect.map(temporaryDirectory, ({ workdir }) => ({
  provider: bubblewrapSandbox(),
  workdir,
  lose: () => Effect.sync(() => rmSync(workdir, { recursive: true }))
}))

sandboxContract("bubblewrap", subject, { skip: withoutBubblewrap })

/** A directory beside a working directory, which commands see, and a sandbox with these options. */
const opened = (options: (top: string) => BubblewrapSandboxOptions = () => ({})) =>
  Effect.gen(function* () {
    const { top, workdir } = yield* temporaryDirectory
    const outside = join(top, "outside")
    mkdirSync(outside)
    writeFileSync(join(outside, "kept"), "kept")
    const given = options(top)
    const provider = bubblewrapSandbox({ ...given, readable: [outside, ...(given.readable ?? [])] })
    const open = createIn({ provider, workdir, lose })
    return { top, workdir, outside, provider, open }
  })

const run = (line: string, options?: (top: string) => BubblewrapSandboxOptions) =>
  Effect.gen(function* () {
    const { open } = yield* opened(options)
    return yield* (yield* open).exec(["bash", "-c", line])
  })

describe.skipIf(withoutBubblewrap !== undefined)("bubblewrapSandbox", () => {
  it("says what it confines", () => {
    const { capabilities, target } = bubblewrapSandbox()
    assert.deepStrictEqual([...capabilities], ["isolated", "noNetwork"])
    assert.strictEqual(target, "this machine, confined to the working directory, without network")
    const open = bubblewrapSandbox({ network: true })
    assert.deepStrictEqual([...open.capabilities], ["isolated"])
    assert.strictEqual(open.target, "this machine, confined to the working directory, with network")
  })

  it("refuses options that are none", () => {
    const wrong: ReadonlyArray<object> = [
      { network: 1 },
      { hide: "x" },
      { protect: [".git/hooks"] },
      { protect: [".."] },
      { root: "/" }
    ]
    for (const options of wrong)
      assert.throws(() => bubblewrapSandbox(options), OptionsInvalid.OptionsInvalid)
  })

  it.live("lets a command change nothing outside of the working directory", () =>
    Effect.gen(function* () {
      const { open, outside, top } = yield* opened()
      const sandbox = yield* open
      const lines = [
        `echo x > ${outside}/new`,
        `echo x > ${outside}/kept`,
        `rm ${outside}/kept`,
        `mv ${outside}/kept .`,
        `chmod 777 ${outside}/kept`,
        `touch ${outside}/kept`,
        `ln ${outside}/kept hard && echo x > hard`,
        `ln -s ${outside}/kept soft && echo x > soft`,
        "echo x > /etc/fermata-test",
        "mount -o remount,rw /",
        `mount -o remount,rw ${outside}`,
        `mount --bind ${outside} ${outside}`,
        `unshare -Urm sh -c 'mount -o remount,rw ${outside}'`,
        `unshare -Um umount ${outside}`,
        "mknod disk b 8 0",
        // The value that is there: a wall that is missing does no harm to the machine of the test.
        "v=$(cat /proc/sys/vm/swappiness); echo $v > /proc/sys/vm/swappiness"
      ]
      for (const line of lines) {
        const { exitCode } = yield* sandbox.exec(["bash", "-c", line])
        assert.notStrictEqual(exitCode, 0, line)
      }
      assert.strictEqual(readFileSync(join(outside, "kept"), "utf8"), "kept")
      assert.isFalse(existsSync("/etc/fermata-test"))
      // Temporary files and a home can be written, and end with the command.
      const written = yield* sandbox.exec(
        `echo x > ${top}/x && echo x > /tmp/x && echo x > ~/x && cat /tmp/x`
      )
      assert.deepInclude(written, { exitCode: 0, stdout: "x\n" })
      assert.isFalse(existsSync(join(top, "x")))
      assert.strictEqual((yield* sandbox.exec("cat /tmp/x")).exitCode, 1)
    })
  )

  it.live("hides the home, and shows the directories of it that are readable", () =>
    Effect.gen(function* () {
      const { top } = yield* temporaryDirectory
      const home = join(top, "home")
      mkdirSync(join(home, "private"), { recursive: true })
      mkdirSync(join(home, ".tools"))
      writeFileSync(join(home, "private/letter"), "a letter")
      writeFileSync(join(home, ".tools/run"), "a tool")
      const { stdout } = yield* withVariables(
        { HOME: home },
        run("cat ~/private/letter; ls -A ~; cat ~/.tools/run; echo x > ~/.tools/run", () => ({
          // What is beside the home is visible, so it is not hidden by chance.
          readable: [top, join(home, ".tools")]
        }))
      )
      assert.strictEqual(stdout, ".tools\na tool")
      assert.strictEqual(readFileSync(join(home, ".tools/run"), "utf8"), "a tool")
    })
  )

  it.live("hides credentials, sockets of services, and the processes of this machine", () =>
    Effect.gen(function* () {
      const hidden = ["/etc/shadow", "/proc/kcore", "/var/log", "/run"].filter((path) => existsSync(path))
      const { stdout } = yield* run(
        `for f in ${hidden.join(" ")}; do [ -d $f ] && ls -A $f || head -c 9 $f; done 2> errors; ls /proc | grep -c '^[0-9]*$'`
      )
      assert.isAtMost(Number(stdout.replace(/systemd|resolvconf|current-system/g, "").trim()), 8)
      const parent = yield* run(`cat /proc/${process.pid}/environ; kill -0 ${process.pid}`)
      assert.notStrictEqual(parent.exitCode, 0)
      assert.strictEqual(parent.stdout, "")
    })
  )

  it.live("hides what its files ask about, in the working directory and below", () =>
    Effect.gen(function* () {
      const { open, workdir } = yield* opened((top) => ({ rules: { own: [join(top, "work/runs.db")] } }))
      mkdirSync(join(workdir, "app/config/.aws"), { recursive: true })
      const secrets = [
        ".env",
        "app/config/prod.pem",
        "app/config/.aws/credentials",
        "runs.db",
        "runs.db-wal",
        "fermata.db"
      ]
      for (const path of secrets) writeFileSync(join(workdir, path), "secret")
      writeFileSync(join(workdir, "app/config/.env.example"), "KEY=\n")
      const sandbox = yield* open
      const names = secrets.join(" ")
      assert.deepInclude(yield* sandbox.exec(`cat ${names}`), { stdout: "", exitCode: 1 })
      assert.strictEqual((yield* sandbox.exec("cat app/config/.env.example")).stdout, "KEY=\n")
      // One that appears later, beside them.
      writeFileSync(join(workdir, "late.pem"), "secret")
      assert.strictEqual((yield* sandbox.exec("cat late.pem")).stdout, "")
      assert.notStrictEqual((yield* sandbox.exec("rm -f .env runs.db")).exitCode, 0)
      for (const path of secrets) assert.strictEqual(readFileSync(join(workdir, path), "utf8"), "secret")
    })
  )

  it.live("hides the places of its options", () =>
    Effect.gen(function* () {
      const { exitCode, stdout } = yield* run(`ls /usr/share; ls /usr/bin/env`, () => ({
        hide: ["/usr/share"]
      }))
      assert.deepStrictEqual([exitCode, stdout], [0, "/usr/bin/env\n"])
    })
  )

  it.live("protects names from which other programs take commands, also from a replacement", () =>
    Effect.gen(function* () {
      const { open, workdir } = yield* opened()
      mkdirSync(join(workdir, ".git/hooks"), { recursive: true })
      writeFileSync(join(workdir, ".git/config"), "config")
      writeFileSync(join(workdir, ".mcp.json"), "{}")
      const sandbox = yield* open
      const lines = [
        "echo x > .git/hooks/pre-commit",
        "echo x > .git/config",
        "mv .git old",
        "rm -rf .git",
        "ln -sfn /tmp .git/hooks",
        "echo x > .mcp.json",
        "mv .mcp.json old"
      ]
      for (const line of lines) assert.notStrictEqual((yield* sandbox.exec(line)).exitCode, 0, line)
      assert.strictEqual((yield* sandbox.exec("cat .git/config .mcp.json")).stdout, "config{}")
      const open2 = createIn({ provider: bubblewrapSandbox({ protect: [] }), workdir, lose })
      assert.strictEqual((yield* (yield* open2).exec("echo x > .git/hooks/pre-commit")).exitCode, 0)
    })
  )

  it.live("does not follow a link in the place of a name that it protects or hides", () =>
    Effect.gen(function* () {
      const { open, outside, top, workdir } = yield* opened()
      mkdirSync(join(top, "secrets"))
      writeFileSync(join(top, "secrets/key"), "secret")
      mkdirSync(join(workdir, ".vscode"))
      mkdirSync(join(workdir, "deep/.aws"), { recursive: true })
      const sandbox = yield* open
      rmSync(join(workdir, ".vscode"), { recursive: true })
      rmSync(join(workdir, "deep"), { recursive: true })
      symlinkSync("../secrets", join(workdir, ".vscode"))
      symlinkSync("../secrets", join(workdir, ".env"))
      mkdirSync(join(top, "secrets/.aws"))
      symlinkSync("../secrets", join(workdir, "deep"))
      const { stdout } = yield* sandbox.exec(`cat .vscode/key .env/key deep/key; ls ${outside}`)
      assert.strictEqual(stdout, "kept\n")
    })
  )

  it.live("starts nothing when its working directory was replaced", () =>
    Effect.gen(function* () {
      const { open, workdir } = yield* opened()
      const sandbox = yield* open
      renameSync(workdir, `${workdir}-old`)
      symlinkSync("/", workdir)
      const error = yield* Effect.flip(sandbox.exec("touch etc/x"))
      assert.deepInclude(error, { _tag: "CommandFailed", notStarted: true })
      rmSync(workdir)
    })
  )

  it.live("fails with an error, and not with an exit code, when its wall cannot be set up any more", () =>
    Effect.gen(function* () {
      const { top, workdir } = yield* temporaryDirectory
      const bin = join(top, "bin")
      mkdirSync(bin)
      // bubblewrap itself, which has a directory to mount that is not there, after the file `broken` was made.
      const missing = `if [ -e '${top}/broken' ]; then set -- --ro-bind '${top}/missing' /mnt "$@"; fi`
      writeFileSync(join(bin, "bwrap"), `#!/bin/sh\n${missing}\nexec '${findBubblewrap([top])}' "$@"\n`)
      chmodSync(join(bin, "bwrap"), 0o755)
      const open = createIn({ provider: bubblewrapSandbox(), workdir, lose })
      const sandbox = yield* withVariables({ PATH: `${bin}:${process.env["PATH"]}` }, open)
      assert.strictEqual((yield* sandbox.exec("echo bwrap: x >&2; exit 1")).exitCode, 1)
      writeFileSync(join(top, "broken"), "")
      const error = yield* Effect.flip(sandbox.exec("touch started"))
      assert.deepInclude(error, { _tag: "CommandFailed", notStarted: true })
      assert.include(error.message, "could not set up its wall")
      assert.notInclude(error.message, top)
      assert.isFalse(existsSync(join(workdir, "started")))
      const piped = ChildProcess.pipeTo(ChildProcess.make("echo", ["x"]), ChildProcess.make("cat", []))
      const handle = yield* sandbox.spawner.spawn(piped)
      assert.strictEqual((yield* Effect.flip(handle.exitCode))._tag, "PlatformError")
      rmSync(join(top, "broken"))
      assert.strictEqual((yield* sandbox.exec("kill -9 $$")).exitCode, 137)
      assert.strictEqual(yield* (yield* sandbox.spawner.spawn(piped)).exitCode, 0)
    })
  )

  it.live("reaches no server, unless it has the network", () =>
    Effect.gen(function* () {
      const server = createServer((socket) => socket.end("served"))
      yield* Effect.addFinalizer(() => Effect.sync(() => server.close()))
      yield* Effect.promise(() => new Promise<void>((listening) => server.listen(0, "127.0.0.1", listening)))
      const { port } = server.address() as { readonly port: number }
      const line = `cat < /dev/tcp/127.0.0.1/${port}`
      assert.strictEqual((yield* run(line)).stdout, "")
      assert.strictEqual((yield* run(line, () => ({ network: true }))).stdout, "served")
    })
  )

  it.live("gives bubblewrap itself no variable, and shows none in its arguments", () =>
    Effect.gen(function* () {
      const { open } = yield* opened()
      const sandbox = yield* open
      const command = ChildProcess.make("sh", ["-c", "echo $LD_LIBRARY_PATH-$TOKEN; read line"], {
        env: { LD_LIBRARY_PATH: "/evil", TOKEN: "t0ken" }
      })
      const handle = yield* sandbox.spawner.spawn(command)
      const first = yield* Stream.runHead(Stream.decodeText(handle.stdout))
      assert.deepInclude(first, { value: "/evil-t0ken\n" })
      assert.strictEqual(readFileSync(`/proc/${handle.pid}/environ`, "utf8"), "")
      assert.notInclude(readFileSync(`/proc/${handle.pid}/cmdline`, "utf8"), "t0ken")
    })
  )

  it.live("ends processes that hide from the search for them", () =>
    Effect.gen(function* () {
      const text = `hidden-${process.pid}`
      const away = `trap "" TERM HUP; : ${text}; while :; do sleep 0.05; done`
      const { exitCode } = yield* run(`env -i setsid -f sh -c '${away}'; sleep 0.2`)
      assert.strictEqual(exitCode, 0)
      for (let at = 0; at < 100 && processesWith(text).length > 0; at += 1) yield* Effect.sleep("20 millis")
      assert.deepStrictEqual(processesWith(text), [])
    })
  )

  it.live.skipIf(process.getuid?.() !== 0)("lets the administrator work on the files of others", () =>
    Effect.gen(function* () {
      const line = "touch a && chown 12345:12345 a && chmod 600 a && echo x >> a && cat a"
      assert.deepInclude(yield* run(line), { exitCode: 0, stdout: "x\n" })
    })
  )

  it.live("attaches to the sandbox of a run that began without a wall", () =>
    Effect.gen(function* () {
      const { provider, workdir } = yield* opened()
      const ref = { backend: "local", id: "run_1", workdir }
      assert.isTrue(provider.accepts(ref))
      const sandbox = yield* provider.attach(ref)
      assert.strictEqual(sandbox.ref.backend, "bubblewrap")
      assert.notStrictEqual((yield* sandbox.exec("touch /usr/x")).exitCode, 0)
      assert.isFalse(provider.accepts({ ...ref, backend: "container" }))
    })
  )

  it.live("is not available for a directory of the system", () =>
    Effect.gen(function* () {
      for (const workdir of ["/", "/proc", "/dev/shm"]) {
        const error = yield* Effect.flip(createIn({ provider: bubblewrapSandbox(), workdir, lose }))
        assert.deepInclude(error, { _tag: "SandboxUnavailable", retryable: false })
      }
    })
  )
})

describe("findBubblewrap", () => {
  it.live.skipIf(process.platform !== "linux")(
    "takes the first program outside of what an agent can write",
    () =>
      Effect.gen(function* () {
        const { top, workdir } = yield* temporaryDirectory
        const program = (directory: string) => {
          mkdirSync(directory, { recursive: true })
          const path = join(directory, "bwrap")
          writeFileSync(path, "#!/bin/sh\nexit 0\n")
          chmodSync(path, 0o755)
          return realpathSync(path)
        }
        program(join(workdir, "bin"))
        const first = program(join(top, "first"))
        program(join(top, "second"))
        symlinkSync(join(workdir, "bin"), join(top, "linked"))
        mkdirSync(join(top, "plain"))
        writeFileSync(join(top, "plain/bwrap"), "no program")
        const path = [
          join(workdir, "bin"),
          join(top, "linked"),
          "bin",
          "",
          join(top, "plain"),
          join(top, "first"),
          join(top, "second")
        ]
        assert.strictEqual(findBubblewrap([workdir], path.join(":")), first)
        assert.isUndefined(findBubblewrap([top], path.join(":")))
      })
  )
})

describe("bubblewrapSandbox without bubblewrap", () => {
  it.live("is not available, and says what to install", () =>
    Effect.gen(function* () {
      const { workdir } = yield* temporaryDirectory
      const error = yield* withVariables(
        { PATH: workdir },
        Effect.flip(createIn({ provider: bubblewrapSandbox(), workdir, lose }))
      )
      assert.strictEqual(error._tag, "SandboxUnavailable")
      assert.include(error.message, "install the package bubblewrap")
    })
  )
})
