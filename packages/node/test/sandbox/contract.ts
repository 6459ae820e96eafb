/**
 * What every sandbox does, as a suite over a provider. A provider that cannot do something names the test and the reason.
 */
import { randomUUID } from "node:crypto"
import { assert, describe, it } from "@effect/vitest"
import { Id, type Sandbox, type SandboxProvider } from "@fermata/sdk"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import type * as PlatformError from "effect/PlatformError"
import * as Result from "effect/Result"
import * as Schedule from "effect/Schedule"
import * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import { repeats } from "../../../../scripts/internal/effort.ts"
import { openDescriptors, processesWith, zombies } from "./processes.ts"

/** A provider under test, with a new working directory for each test. */
export interface Subject {
  readonly provider: SandboxProvider.Shape
  /** The working directory to create sandboxes with, if the provider does not choose it. */
  readonly workdir?: string
  /** The run whose sandbox it is. Default: the same for all tests, whose providers then have nothing in common. */
  readonly runId?: Id.RunId
  /** Removes what a sandbox lives in, so that it is lost. */
  readonly lose: (ref: Sandbox.Shape["ref"]) => Effect.Effect<void>
}

export interface ContractOptions {
  /** Why the whole suite cannot run here. */
  readonly skip?: string | undefined
  /** Tests that do not apply to this provider, by their title, with the reason. */
  readonly except?: Readonly<Record<string, string>>
  /** How many commands are interrupted in a row. Default: {@link manyTries}. */
  readonly cancels?: number
  /** How many file handles may be open more after them: those of connections that are kept for later commands. Default: 0. */
  readonly keptHandles?: number
  /** How long a test may take, in milliseconds. Default: 20 seconds. */
  readonly timeoutMs?: number
}

/** How many commands are interrupted in a row where each takes long. */
export const fewTries = repeats(3)

/** As {@link fewTries}, where each takes a moment. */
const manyTries = repeats(25)

const contractRunId = Id.RunId.make("run_contract")
const sessionId = Id.SessionId.make("session_contract")

/** A run's sandbox. */
export const createIn = ({ provider, runId = contractRunId, workdir }: Subject) =>
  provider.create({ runId, sessionId, ...(workdir === undefined ? {} : { workdir }) })

const atOnce = { concurrency: "unbounded" } as const

/** The suite. */
export const sandboxContract = (
  name: string,
  make: Effect.Effect<Subject, never, Scope.Scope>,
  options: ContractOptions = {}
): void => {
  const { cancels = manyTries, except = {}, keptHandles = 0, skip, timeoutMs = 20_000 } = options
  const why = skip === undefined ? "" : `: ${skip}`
  describe.skipIf(skip !== undefined)(`the contract of sandboxes (${name})${why}`, () => {
    const test: Test = (title, body, factor = 1) => {
      const reason = except[title]
      it.live.skipIf(reason !== undefined)(
        reason === undefined ? title : `${title}: ${reason}`,
        () =>
          Effect.gen(function* () {
            const subject = yield* make
            yield* body(yield* createIn(subject), subject)
          }).pipe(Effect.scoped),
        timeoutMs * factor
      )
    }

    commandTests(test)
    stopTests(test)
    leftoverTests(test, cancels, keptHandles)
    fileTests(test)
    identityTests(test)
  })
}

type Test = (
  title: string,
  body: (sandbox: Sandbox.Shape, subject: Subject) => Effect.Effect<void, unknown, Scope.Scope>,
  /** How many times the usual timeout the test may take. */
  factor?: number
) => void

const commandTests = (test: Test): void => {
  test("gives the exit code of a command", (sandbox) =>
    Effect.gen(function* () {
      const codes = [0, 1, 3, 127, 255]
      const results = yield* Effect.forEach(codes, (code) => sandbox.exec(`exit ${code}`), atOnce)
      assert.deepStrictEqual(
        results.map(({ exitCode }) => exitCode),
        codes
      )
    }))

  test("gives 128 plus the number of the signal that ended a command", (sandbox) =>
    Effect.gen(function* () {
      assert.strictEqual((yield* sandbox.exec("kill -9 $$")).exitCode, 137)
    }))

  test("keeps the two streams apart", (sandbox) =>
    Effect.gen(function* () {
      const { stderr, stdout } = yield* sandbox.exec("echo one; echo two >&2")
      assert.deepStrictEqual([stdout, stderr], ["one\n", "two\n"])
    }))

  test("passes the arguments of a program without a shell", (sandbox) =>
    Effect.gen(function* () {
      const args = ["$HOME", "a b", "'", '"', "*", "ä🎵", "", "-n", "\\", "a\nb", "; exit 3"]
      const { exitCode, stdout } = yield* sandbox.exec(["printf", "<%s>", ...args])
      assert.deepStrictEqual([exitCode, stdout], [0, args.map((arg) => `<${arg}>`).join("")])
    }))

  test("says that a program does not exist", (sandbox) =>
    Effect.gen(function* () {
      const result = yield* Effect.result(sandbox.exec(["no-such-program"]))
      if (Result.isSuccess(result)) assert.strictEqual(result.success.exitCode, 127)
      else assert.deepInclude(result.failure, { _tag: "CommandFailed", notStarted: true })
    }))

  test("gives 1 MB of output whole, or its head and its tail", (sandbox) =>
    Effect.gen(function* () {
      const line = `i=0; while [ $i -lt 16384 ]; do echo "$i 56789 123456789 123456789 123456789 123456789 123456789 1"; i=$((i+1)); done`
      const whole = yield* sandbox.exec(line, { maxOutputBytes: 4_000_000 })
      const lines = whole.stdout.split("\n")
      assert.strictEqual(whole.missing.stdout, 0)
      assert.strictEqual(lines.length, 16_385)
      assert.isTrue(lines.every((each, at) => at === 16_384 || each.startsWith(`${at} 56789`)))
      const bytes = whole.stdout.length
      assert.isAbove(bytes, 1_000_000)
      const cut = yield* sandbox.exec(line)
      assert.strictEqual(cut.missing.stdout, bytes - 65_536)
      assert.isTrue(cut.stdout.startsWith("0 56789") && cut.stdout.includes("\n16383 56789"))
    }))

  test("starts a command in its directory", (sandbox) =>
    Effect.gen(function* () {
      assert.strictEqual((yield* sandbox.exec("pwd")).stdout, `${sandbox.workdir}\n`)
      yield* sandbox.files.makeDirectory("a b/ü", { recursive: true })
      const inside = yield* sandbox.exec("pwd", { cwd: "a b/ü" })
      assert.strictEqual(inside.stdout, `${sandbox.workdir}/a b/ü\n`)
      const missing = yield* Effect.flip(sandbox.exec("pwd", { cwd: "missing" }))
      assert.deepInclude(missing, { _tag: "CommandFailed", notStarted: true })
    }))

  test("starts no command outside of the working directory", (sandbox) =>
    Effect.gen(function* () {
      yield* sandbox.exec("ln -s / out")
      for (const cwd of ["..", "/", "a/../../..", "out", "a\0b"]) {
        const error = yield* Effect.flip(sandbox.exec("pwd", { cwd }))
        assert.deepInclude(error, { _tag: "CommandFailed", notStarted: true })
      }
    }))

  test("gives a command its variables, and none of the process that could hold a secret", (sandbox) =>
    Effect.gen(function* () {
      process.env["CONTRACT_API_TOKEN"] = "t0ken"
      const env = { GREETING: "grüß 'dich'\nzwei" }
      const { stdout } = yield* sandbox
        .exec('printf "%s" "$GREETING"; env | grep -c TOKEN; test -n "$PATH"', { env })
        .pipe(Effect.ensuring(Effect.sync(() => delete process.env["CONTRACT_API_TOKEN"])))
      assert.strictEqual(stdout, `${env.GREETING}0\n`)
    }))

  test("gives a command no input", (sandbox) =>
    Effect.gen(function* () {
      assert.deepInclude(yield* sandbox.exec("cat", { timeout: "10 seconds" }), {
        exitCode: 0,
        stdout: "",
        timedOut: false
      })
    }))

  test("runs commands at the same time", (sandbox) =>
    Effect.gen(function* () {
      // Each waits for the other one.
      const line = (own: string, other: string) =>
        `echo ${own} > new-${own}; mv new-${own} ${own}; until [ -e ${other} ]; do sleep 0.02; done; cat ${other}`
      const results = yield* Effect.all(
        [
          sandbox.exec(line("a", "b")),
          sandbox.exec(line("b", "a")),
          ...Array.from({ length: 10 }, (_, at) => sandbox.exec(`echo ${at}; exit ${at}`))
        ],
        { concurrency: "unbounded" }
      )
      assert.deepStrictEqual(
        results.map(({ exitCode, stdout }) => [exitCode, stdout]),
        [[0, "b\n"], [0, "a\n"], ...Array.from({ length: 10 }, (_, at) => [at, `${at}\n`])]
      )
    }))

  test("publishes output while the command runs", (sandbox) =>
    Effect.gen(function* () {
      const first = yield* Deferred.make<string>()
      const running = yield* Effect.forkScoped(
        sandbox.exec("echo ready; until [ -e go ]; do sleep 0.02; done; echo done", {
          onOutput: ({ chunk, stream }) => Deferred.doneUnsafe(first, Effect.succeed(`${stream}: ${chunk}`))
        })
      )
      assert.strictEqual(yield* Deferred.await(first), "stdout: ready\n")
      yield* sandbox.files.writeFileString("go", "")
      assert.strictEqual((yield* Fiber.join(running)).stdout, "ready\ndone\n")
    }))

  test("does not wait for a process in the background", (sandbox) =>
    Effect.gen(function* () {
      const result = yield* sandbox.exec("sleep 600 & echo started")
      assert.deepInclude(result, { exitCode: 0, stdout: "started\n", timedOut: false })
      assert.isBelow(result.durationMs, 60_000)
    }))
}

/** Ends with SIGTERM, after it has written a file. */
const politeLine = "trap 'echo stopped > stopped; exit 0' TERM; echo ready; while :; do sleep 0.02; done"

const stopTests = (test: Test): void => {
  test("stops a command when its time is over, with SIGTERM first", (sandbox) =>
    Effect.gen(function* () {
      const result = yield* sandbox.exec(politeLine, { timeout: "1 second" })
      assert.deepInclude(result, { timedOut: true, exitCode: 124, stdout: "ready\n" })
      assert.strictEqual(yield* sandbox.files.readFileString("stopped"), "stopped\n")
    }))

  test("stops a command that ignores SIGTERM when its time is over", (sandbox) =>
    Effect.gen(function* () {
      const line = "trap '' TERM; echo ready; while :; do sleep 0.02; echo x >> alive; done"
      const result = yield* sandbox.exec(line, { timeout: "1 second" })
      assert.deepInclude(result, { timedOut: true, stdout: "ready\n" })
      // Nothing writes any more.
      const size = () => Effect.map(sandbox.exec("wc -c < alive"), ({ stdout }) => stdout)
      const before = yield* size()
      yield* sandbox.exec("sleep 0.2")
      assert.strictEqual(yield* size(), before)
    }))

  test("stops a command that is interrupted, before the interruption returns", (sandbox) =>
    Effect.gen(function* () {
      const ready = yield* Deferred.make<void>()
      const running = yield* Effect.forkScoped(
        sandbox.exec(politeLine, { onOutput: () => Deferred.doneUnsafe(ready, Effect.void) })
      )
      yield* Deferred.await(ready)
      yield* Fiber.interrupt(running)
      assert.strictEqual(yield* sandbox.files.readFileString("stopped"), "stopped\n")
    }))
}

/** A line whose processes have a text in their arguments that no other process has. It is ready when it has written. */
const marked = (text: string) => `echo ready; sleep 600; : ${text}`

const leftoverTests = (test: Test, cancels: number, keptHandles: number): void => {
  const newText = () => `contract-${randomUUID()}`

  test(
    "stops a process that has left the session of its command and ignores SIGTERM",
    (sandbox) =>
      Effect.gen(function* () {
        const text = newText()
        const away = `trap "" TERM HUP; : ${text}; while :; do sleep 0.05; done`
        const line = `setsid sh -c '${away}' & sleep 0.1; echo ready; sleep 600`
        const running = yield* startUntilReady(sandbox, line)
        assert.isAbove(processesWith(text).length, 0)
        yield* Fiber.interrupt(running)
        assert.deepStrictEqual(processesWith(text), [])
      }),
    2
  )

  test(
    `leaves no process, no zombie and no file handle after ${cancels} commands in a row that are interrupted`,
    (sandbox) =>
      Effect.gen(function* () {
        const text = newText()
        const cancelled = Effect.flatMap(startUntilReady(sandbox, marked(text)), (running) =>
          Fiber.interrupt(running)
        ).pipe(Effect.scoped)
        // What is loaded and opened once is not counted.
        yield* cancelled
        const before = openDescriptors()
        for (let at = 0; at < cancels; at += 1) yield* cancelled
        assert.deepStrictEqual(processesWith(text), [])
        yield* eventually(() => {
          assert.deepStrictEqual(zombies(), [])
          assert.isAtMost(openDescriptors() - before, keptHandles)
        })
      }),
    6
  )

  test("leaves no process when it is released", (_, subject) =>
    Effect.gen(function* () {
      const text = newText()
      yield* Effect.gen(function* () {
        const sandbox = yield* createIn(subject)
        // Commands in the background belong to the sandbox.
        for (let at = 0; at < 3; at += 1)
          yield* Effect.provideService(startUntilReady(sandbox, marked(text)), Scope.Scope, sandbox.scope)
        assert.isAbove(processesWith(text).length, 2)
      }).pipe(Effect.scoped)
      assert.deepStrictEqual(processesWith(text), [])
      yield* eventually(() => assert.deepStrictEqual(zombies(), []))
    }))
}

/** Starts a line, and waits for its first output. */
const startUntilReady = (sandbox: Sandbox.Shape, line: string) =>
  Effect.gen(function* () {
    const ready = yield* Deferred.make<void>()
    const running = yield* Effect.forkScoped(
      sandbox.exec(line, { onOutput: () => Deferred.doneUnsafe(ready, Effect.void) })
    )
    yield* Deferred.await(ready)
    return running
  })

/** Repeats a check until it holds, for what the operating system does a moment later. */
const eventually = (check: () => void) =>
  Effect.sync(check).pipe(
    Effect.catchDefect((cause) => Effect.fail(cause)),
    Effect.retry({ times: 100, schedule: Schedule.spaced("20 millis") })
  )

const fileTests = (test: Test): void => {
  test("keeps every byte of a file", (sandbox) =>
    Effect.gen(function* () {
      const bytes = Uint8Array.from({ length: 70_000 }, (_, at) => (at * 7 + (at >> 8)) % 256)
      yield* sandbox.files.writeFile("data.bin", bytes)
      const { stdout } = yield* sandbox.exec("cp data.bin copy.bin; wc -c < copy.bin")
      assert.strictEqual(stdout.trim(), "70000")
      assert.deepStrictEqual(Buffer.from(yield* sandbox.files.readFile("copy.bin")), Buffer.from(bytes))
      assert.isTrue(yield* Effect.isFailure(sandbox.files.readFile("missing.bin")))
    }))

  test("takes any name", (sandbox) =>
    Effect.gen(function* () {
      const names = ["ä ö.txt", "日本語.txt", "🎵", "-rf", "a'b\"c", "$HOME", "new\nline", "*"]
      yield* Effect.forEach(names, (name) => sandbox.files.writeFileString(`names/${name}`, name), atOnce)
      const found = yield* sandbox.files.readDirectory("names")
      assert.deepStrictEqual([...found].sort(), [...names].sort())
      const read = yield* Effect.forEach(
        names,
        (name) =>
          Effect.all(
            [
              sandbox.files.readFileString(`names/${name}`),
              Effect.map(sandbox.exec(["cat", `./names/${name}`]), ({ stdout }) => stdout)
            ],
            atOnce
          ),
        atOnce
      )
      assert.deepStrictEqual(
        read,
        names.map((name) => [name, name])
      )
    }))

  test("sees in its files what commands did", (sandbox) =>
    Effect.gen(function* () {
      yield* sandbox.exec("mkdir -p src/deep; echo 1 > src/deep/a.ts; echo 22 > src/b.ts; echo x > top")
      const { files } = sandbox
      const below = yield* files.readDirectory("src", { recursive: true })
      assert.deepStrictEqual([...below].sort(), ["b.ts", "deep", "deep/a.ts"])
      assert.strictEqual((yield* files.stat("src")).type, "Directory")
      assert.strictEqual(Number((yield* files.stat("src/b.ts")).size), 3)
      assert.strictEqual(yield* files.exists("src/c.ts"), false)
      yield* files.rename("src/b.ts", "src/c.ts")
      yield* files.remove("src/deep", { recursive: true })
      assert.strictEqual((yield* sandbox.exec("ls -A src")).stdout, "c.ts\n")
    }))

  test("refuses paths that lead out of the working directory", (sandbox) =>
    Effect.gen(function* () {
      yield* sandbox.exec("ln -s /etc out; ln -s /etc/passwd link; ln -s ../new up")
      for (const path of ["/etc/passwd", "../x", "out/passwd", "link", "up", "a/../../x", "x\0y"]) {
        const operations = [sandbox.files, sandbox.approvedFiles].flatMap((files) => [
          files.readFile(path),
          files.writeFileString(path, "x"),
          files.exists(path)
        ])
        const refused = yield* Effect.forEach(
          operations,
          (operation) => Effect.isFailure<unknown, unknown, never>(operation),
          atOnce
        )
        assert.deepStrictEqual(
          refused,
          operations.map(() => true),
          path
        )
        assert.deepInclude(yield* sandbox.judgePath(path, "read"), { decision: "deny" })
      }
      assert.deepInclude(yield* sandbox.judgePath("inside.txt", "write"), {
        decision: "allow",
        path: `${sandbox.workdir}/inside.txt`
      })
    }))

  test("uses a path that asks only after an approval", (sandbox) =>
    Effect.gen(function* () {
      yield* sandbox.exec("echo KEY=1 > .env")
      const judged = yield* sandbox.judgePath(".env", "read")
      assert.strictEqual(judged.decision, "ask")
      assert.isString(judged.reason)
      assert.isTrue(yield* Effect.isFailure(sandbox.files.readFile(".env")))
      assert.strictEqual(yield* sandbox.approvedFiles.readFileString(".env"), "KEY=1\n")
    }))

  test("fails for an operation on files that it does not have, and does nothing", (sandbox) =>
    Effect.gen(function* () {
      const { files } = sandbox
      const operations: ReadonlyArray<Effect.Effect<unknown, PlatformError.PlatformError>> = [
        files.symlink("/etc/passwd", "a"),
        files.link("/etc/passwd", "a"),
        files.chmod("/etc/passwd", 0o777),
        files.truncate("/etc/passwd"),
        files.makeTempFile({ directory: "/etc" }),
        Stream.runDrain(files.watch("/etc"))
      ]
      for (const operation of operations)
        assert.strictEqual((yield* Effect.flip(operation))._tag, "PlatformError")
      assert.deepStrictEqual(yield* files.readDirectory("."), [])
    }))
}

const identityTests = (test: Test): void => {
  test("describes itself as its provider does", (sandbox, { provider }) =>
    Effect.sync(() => {
      assert.strictEqual(sandbox.target, provider.target)
      assert.strictEqual(sandbox.ref.backend, provider.backend)
      assert.deepStrictEqual([...sandbox.capabilities].sort(), [...provider.capabilities].sort())
      assert.strictEqual(sandbox.workdir, sandbox.ref.workdir)
    }))

  test("fails with CapabilityMissing for what it cannot do", (sandbox) =>
    Effect.gen(function* () {
      const operations = {
        sessions: sandbox.findCommand("call_1"),
        snapshot: sandbox.snapshot,
        ports: sandbox.portUrl(3000),
        screen: sandbox.screen
      }
      for (const [capability, operation] of Object.entries(operations)) {
        if (sandbox.capabilities.has(capability as Sandbox.Capability)) continue
        const error = yield* Effect.flip(operation as Effect.Effect<unknown, Sandbox.SandboxError>)
        assert.deepStrictEqual(
          [error._tag, "capability" in error && error.capability],
          ["CapabilityMissing", capability]
        )
      }
    }))

  test("is the same for the same run, and is attached to by its reference", (sandbox, subject) =>
    Effect.gen(function* () {
      yield* sandbox.files.writeFileString("kept.txt", "kept")
      const ref = JSON.parse(JSON.stringify(sandbox.ref))
      const again = yield* createIn(subject)
      assert.deepStrictEqual(again.ref, sandbox.ref)
      const attached = yield* subject.provider.attach(ref)
      assert.deepStrictEqual(attached.ref, sandbox.ref)
      assert.strictEqual((yield* attached.exec("cat kept.txt")).stdout, "kept")
    }))

  test("keeps its files when it is released", (_, subject) =>
    Effect.gen(function* () {
      const ref = yield* Effect.scoped(
        Effect.gen(function* () {
          const sandbox = yield* createIn(subject)
          yield* sandbox.files.writeFileString("kept.txt", "kept")
          return sandbox.ref
        })
      )
      const attached = yield* subject.provider.attach(ref)
      assert.strictEqual(yield* attached.files.readFileString("kept.txt"), "kept")
    }))

  test("fails with SandboxLost when it is gone", (sandbox, { lose, provider }) =>
    Effect.gen(function* () {
      yield* lose(sandbox.ref)
      assert.strictEqual((yield* Effect.flip(provider.attach(sandbox.ref)))._tag, "SandboxLost")
    }))
}
