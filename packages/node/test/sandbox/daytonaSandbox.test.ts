import { assert, describe, it } from "@effect/vitest"
import { daytonaSandbox, type DaytonaSandboxOptions, Id, OptionsInvalid } from "@fermata/node"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Redacted from "effect/Redacted"
import { toolboxAddress } from "../../src/sandbox/internal/toolboxAddress.ts"
import { createIn, fewTries, sandboxContract } from "./contract.ts"
import { apiKey, type DaytonaServer, daytonaServer } from "./daytonaServer.ts"
import { sessionContract } from "./sessions.ts"

const subjectOf = (server: DaytonaServer, options: DaytonaSandboxOptions = {}) => ({
  provider: daytonaSandbox({ apiKey, apiUrl: server.apiUrl, ...options }),
  lose: () => Effect.sync(() => server.boxes.clear())
})

const subject = Effect.map(daytonaServer, (server) => subjectOf(server))

sandboxContract("Daytona", subject, { cancels: fewTries, keptHandles: 5, timeoutMs: 60_000 })

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
      { toolboxHosts: "proxy.internal" },
      { toolboxHosts: ["proxy.internal:4000"] },
      { toolboxHosts: ["https://proxy.internal"] },
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
    "sends the key to no host that the API names, unless it is the API's or a listed one",
    () =>
      Effect.gen(function* () {
        const server = yield* daytonaServer
        const toolboxUrl = `${server.origin.replace("127.0.0.1", "localhost")}/toolbox`
        server.toolboxUrl = toolboxUrl
        const error = yield* Effect.flip(createIn(subjectOf(server)))
        assert.deepInclude(error, { _tag: "SandboxUnavailable", retryable: false })
        assert.include(error.message, "list it in the option toolboxHosts")
        assert.notInclude(error.message, "localhost")
        assert.lengthOf(
          server.requests.filter((request) => !/ \/sandbox/.test(request)),
          0
        )
        // A run whose address changes after its sandbox was created is protected as well.
        server.toolboxUrl = undefined
        const { ref } = yield* createIn(subjectOf(server))
        server.toolboxUrl = toolboxUrl
        const again = yield* Effect.flip(subjectOf(server).provider.attach(ref))
        assert.deepInclude(again, { _tag: "SandboxUnavailable", retryable: false })
        const listed = yield* createIn(subjectOf(server, { toolboxHosts: ["localhost"] }))
        assert.strictEqual((yield* listed.exec("echo hello")).stdout, "hello\n")
      }).pipe(Effect.scoped),
    timeoutMs
  )

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

describe("toolboxAddress", () => {
  const holders = { apiUrl: "https://app.daytona.io/api", hosts: ["Proxy.Internal"] }

  it("takes the host of the API, its proxy and the listed hosts, on any port", () => {
    const taken: ReadonlyArray<readonly [given: string, base: string]> = [
      ["https://app.daytona.io/api/toolbox/", "https://app.daytona.io/api/toolbox"],
      ["https://proxy.app.daytona.io/toolbox", "https://proxy.app.daytona.io/toolbox"],
      ["https://PROXY.app.daytona.io:4000", "https://proxy.app.daytona.io:4000"],
      ["https://proxy.internal/toolbox", "https://proxy.internal/toolbox"]
    ]
    for (const [given, base] of taken)
      assert.deepStrictEqual(toolboxAddress(given, holders), { _tag: "trusted", base }, given)
    const local = { apiUrl: "http://localhost:3000/api", hosts: [] }
    for (const given of ["http://localhost:4000/toolbox", "https://localhost/toolbox"])
      assert.deepInclude(toolboxAddress(given, local), { _tag: "trusted" }, given)
  })

  it("refuses every other address, and repeats nothing of it", () => {
    const refused = [
      "http://app.daytona.io/api/toolbox",
      "http://proxy.internal/toolbox",
      "https://example.com/toolbox",
      "https://app.daytona.io.example.com/toolbox",
      "https://exampleapp.daytona.io/toolbox",
      // Where Daytona serves the ports of sandboxes.
      "https://3000-fermata.proxy.app.daytona.io/toolbox",
      "https://3000-fermata.app.daytona.io/toolbox",
      "https://proxy.proxy.internal/toolbox",
      "https://app.daytona.io@example.com/toolbox",
      "https://user:password@app.daytona.io/toolbox",
      "https://app.daytona.io/toolbox?to=",
      "https://app.daytona.io/toolbox#x",
      "file:///toolbox",
      "//app.daytona.io/toolbox",
      ""
    ]
    for (const given of refused) {
      const address = toolboxAddress(given, holders)
      assert.strictEqual(address._tag, "refused", given)
      if (address._tag === "refused") assert.notMatch(address.problem, /example|3000|password|internal/)
    }
  })
})
