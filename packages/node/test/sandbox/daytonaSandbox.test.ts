import { assert, describe, it } from "@effect/vitest"
import { daytonaSandbox, type DaytonaSandboxOptions, Id, OptionsInvalid } from "@fermata/node"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Redacted from "effect/Redacted"
import { createIn, sandboxContract } from "./contract.ts"
import { apiKey, type DaytonaServer, daytonaServer } from "./daytonaServer.ts"
import { sessionContract } from "./sessions.ts"

const subjectOf = (server: DaytonaServer, options: DaytonaSandboxOptions = {}) => ({
  provider: daytonaSandbox({ apiKey, apiUrl: server.apiUrl, ...options }),
  lose: () => Effect.sync(() => server.boxes.clear())
})

const subject = Effect.map(daytonaServer, (server) => subjectOf(server))

sandboxContract("Daytona", subject, { timeoutMs: 60_000 })

sessionContract("Daytona", subject)

const timeoutMs = 60_000

const only = (server: DaytonaServer) => [...server.boxes.values()][0]!

describe("daytonaSandbox", () => {
  it("says that it acts away from this machine, before there is a sandbox", () => {
    const provider = daytonaSandbox()
    assert.strictEqual(provider.target, "a Daytona sandbox, away from this machine")
    assert.strictEqual(provider.isRemote, true)
    assert.deepStrictEqual([...provider.capabilities], ["sessions", "ports"])
  })

  it("refuses options that are none", () => {
    const wrong: ReadonlyArray<object> = [
      { apiKey: "" },
      { apiKey: Redacted.make("") },
      { apiUrl: "ftp://x" },
      { apiUrl: "app.daytona.io" },
      { autoStop: "soon" },
      { autoStop: Infinity },
      { onRelease: "delete" },
      { labels: { a: 1 } },
      { key: "x" }
    ]
    for (const options of wrong)
      assert.throws(() => daytonaSandbox(options), OptionsInvalid.OptionsInvalid, "", JSON.stringify(options))
  })

  it.live(
    "creates the sandbox of a run with its labels and its times, in whole minutes",
    () =>
      Effect.gen(function* () {
        const server = yield* daytonaServer
        yield* createIn(
          subjectOf(server, {
            target: "eu",
            snapshot: "node",
            labels: { team: "a" },
            autoStop: "90 seconds",
            timeToLive: "1 day"
          })
        )
        const { body, name } = only(server)
        assert.deepInclude(body, {
          target: "eu",
          snapshot: "node",
          autoStopInterval: 2,
          ttlMinutes: 1440,
          labels: { team: "a", "fermata.run": "run_contract", "fermata.session": "session_contract" }
        })
        assert.notProperty(body, "autoDeleteInterval")
        assert.match(name, /^fermata-[0-9a-f]{32}$/)
        assert.notInclude(JSON.stringify(server.requests), apiKey)
      }).pipe(Effect.scoped),
    timeoutMs
  )

  it.live(
    "creates one sandbox for a run whose first creation was not stored, also if two processes create at once",
    () =>
      Effect.gen(function* () {
        const server = yield* daytonaServer
        const [one, two] = yield* Effect.all([createIn(subjectOf(server)), createIn(subjectOf(server))], {
          concurrency: 2
        })
        assert.strictEqual(server.boxes.size, 1)
        assert.deepStrictEqual(one.ref, two.ref)
        assert.deepStrictEqual(Object.keys(one.ref), ["backend", "id", "workdir"])
      }).pipe(Effect.scoped),
    timeoutMs
  )

  it.live(
    "does not send a command again whose sandbox was stopped since, and knows its exit code",
    () =>
      Effect.gen(function* () {
        const server = yield* daytonaServer
        const sandbox = yield* createIn(subjectOf(server))
        const session = "run_1:call_1"
        yield* sandbox.exec("echo ran >> log; exit 4", { session })
        server.halt(only(server))
        const again = yield* createIn(subjectOf(server))
        const found = yield* again.findCommand(session)
        assert.strictEqual(found._tag, "ended")
        const result = yield* again.exec("echo ran >> log; exit 4", { session })
        assert.deepInclude(result, { exitCode: 4, stdout: "" })
        assert.include(result.stderr, "lost when the sandbox was stopped")
        assert.strictEqual(yield* again.files.readFileString("log"), "ran\n")
      }).pipe(Effect.scoped),
    timeoutMs
  )

  it.live(
    "says that a command may have had effects which its stopped sandbox ended, and does not send it again",
    () =>
      Effect.gen(function* () {
        const server = yield* daytonaServer
        const sandbox = yield* createIn(subjectOf(server))
        const session = "run_1:call_1"
        const ready = yield* Deferred.make<void>()
        const line = "echo ran >> log; echo ready; sleep 600"
        const running = yield* Effect.forkScoped(
          Effect.flip(
            sandbox.exec(line, { session, onOutput: () => Deferred.doneUnsafe(ready, Effect.void) })
          )
        )
        yield* Deferred.await(ready)
        server.halt(only(server))
        const ended = yield* Fiber.join(running)
        assert.deepInclude(
          { ...ended },
          { _tag: "CommandFailed", problem: "its sandbox was stopped while it ran" }
        )
        const again = yield* createIn(subjectOf(server))
        for (const operation of [again.exec(line, { session }), again.findCommand(session)]) {
          const error = yield* Effect.flip<unknown, unknown, never>(operation)
          assert.deepInclude({ ...(error as object) }, { _tag: "CommandFailed" })
          assert.notProperty(error, "notStarted")
        }
        assert.strictEqual(yield* again.files.readFileString("log"), "ran\n")
      }).pipe(Effect.scoped),
    timeoutMs
  )

  it.live(
    "looks a command up whose start was not answered",
    () =>
      Effect.gen(function* () {
        const server = yield* daytonaServer
        const sandbox = yield* createIn(subjectOf(server))
        const session = "run_1:call_1"
        // The command arrives, and the response does not.
        server.loseNextAnswer = "POST /ID/process/session/run_1:call_1/exec"
        const { stdout } = yield* sandbox.exec("echo ran >> log; echo out", { session })
        assert.strictEqual(stdout, "out\n")
        assert.isUndefined(server.loseNextAnswer)
        assert.strictEqual(yield* sandbox.files.readFileString("log"), "ran\n")
      }).pipe(Effect.scoped),
    timeoutMs
  )

  it.live(
    "starts a sandbox again that was stopped while it was open",
    () =>
      Effect.gen(function* () {
        const server = yield* daytonaServer
        const sandbox = yield* createIn(subjectOf(server))
        yield* sandbox.files.writeFileString("kept.txt", "kept")
        server.halt(only(server))
        assert.strictEqual(yield* sandbox.files.readFileString("kept.txt"), "kept")
        server.halt(only(server))
        assert.strictEqual((yield* sandbox.exec("cat kept.txt")).stdout, "kept")
      }).pipe(Effect.scoped),
    timeoutMs
  )

  it.live(
    "fails a command with SandboxLost whose sandbox was deleted",
    () =>
      Effect.gen(function* () {
        const server = yield* daytonaServer
        const sandbox = yield* createIn(subjectOf(server))
        server.boxes.clear()
        const error = yield* Effect.flip(sandbox.exec("echo late"))
        assert.deepInclude({ ...error }, { _tag: "SandboxLost", id: sandbox.ref.id })
        assert.strictEqual((yield* Effect.flip(sandbox.exec("echo", { session: "s" })))._tag, "SandboxLost")
      }).pipe(Effect.scoped),
    timeoutMs
  )

  it.live(
    "reads logs as older versions send them",
    () =>
      Effect.gen(function* () {
        const server = yield* daytonaServer
        server.hasOldLogs = true
        const sandbox = yield* createIn(subjectOf(server))
        const { stderr, stdout } = yield* sandbox.exec("printf 'ä🎵'; echo two >&2")
        assert.deepStrictEqual([stdout, stderr], ["ä🎵", "two\n"])
      }).pipe(Effect.scoped),
    timeoutMs
  )

  it.live(
    "is unavailable for now if Daytona has an error of its own or is overloaded, and for good if it refuses the key",
    () =>
      Effect.gen(function* () {
        const server = yield* daytonaServer
        for (const [status, retryable] of [
          [500, true],
          [429, true],
          [503, true],
          [403, false]
        ] as const) {
          server.intercept = () => ({ status, json: { message: "secret text" } })
          const error = yield* Effect.flip(createIn(subjectOf(server)))
          assert.deepInclude({ ...error }, { _tag: "SandboxUnavailable", retryable }, String(status))
          assert.notInclude(error.message, "secret text")
        }
        server.intercept = () => "drop"
        assert.deepInclude({ ...(yield* Effect.flip(createIn(subjectOf(server)))) }, { retryable: true })
        server.intercept = undefined
        const wrong = yield* Effect.flip(createIn(subjectOf(server, { apiKey: Redacted.make("other") })))
        assert.deepInclude({ ...wrong }, { retryable: false })
        assert.notInclude(wrong.message, "other")
        assert.include(wrong.message, "refused the key")
      }).pipe(Effect.scoped),
    timeoutMs
  )

  it.live("needs a key, and says how to give it", () =>
    Effect.gen(function* () {
      const before = process.env["DAYTONA_API_KEY"]
      delete process.env["DAYTONA_API_KEY"]
      const spec = { runId: Id.RunId.make("run_1"), sessionId: Id.SessionId.make("session_1") }
      const error = yield* Effect.flip(daytonaSandbox().create(spec)).pipe(
        Effect.ensuring(
          Effect.sync(() => {
            if (before !== undefined) process.env["DAYTONA_API_KEY"] = before
          })
        )
      )
      assert.include(error.message, "set DAYTONA_API_KEY, or give the option apiKey")
    }).pipe(Effect.scoped)
  )

  it.live(
    "gives the address of a port",
    () =>
      Effect.gen(function* () {
        const server = yield* daytonaServer
        const sandbox = yield* createIn(subjectOf(server))
        assert.strictEqual((yield* sandbox.portUrl(3000)).host, `3000-${sandbox.ref.id}.example.test`)
        assert.strictEqual((yield* Effect.flip(sandbox.portUrl(0)))._tag, "SandboxUnavailable")
      }).pipe(Effect.scoped),
    timeoutMs
  )

  it.live(
    "keeps an open sandbox active only if it is asked to",
    () =>
      Effect.gen(function* () {
        const server = yield* daytonaServer
        yield* createIn(subjectOf(server))
        assert.isFalse(server.requests.includes("POST /sandbox/ID/last-activity"))
        const asked = yield* Deferred.make<void>()
        server.intercept = (request) => {
          if (request.endsWith("/last-activity")) Deferred.doneUnsafe(asked, Effect.void)
          return undefined
        }
        yield* createIn(subjectOf(server, { keepActive: true }))
        yield* Deferred.await(asked)
      }).pipe(Effect.scoped),
    timeoutMs
  )

  it.live(
    "deletes a sandbox with its files, and does nothing if it is gone",
    () =>
      Effect.gen(function* () {
        const server = yield* daytonaServer
        const { provider } = subjectOf(server)
        const { ref } = yield* createIn(subjectOf(server))
        yield* provider.destroy(ref)
        assert.strictEqual(server.boxes.size, 0)
        yield* provider.destroy(ref)
      }).pipe(Effect.scoped),
    timeoutMs
  )
})
