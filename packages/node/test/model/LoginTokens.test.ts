import { execFile, spawn } from "node:child_process"
import { once } from "node:events"
import { lstat, mkdtemp, readdir, readFile, rm, stat, symlink, writeFile } from "node:fs/promises"
import { tmpdir } from "node:os"
import { dirname, join } from "node:path"
import { createInterface } from "node:readline"
import { assert, describe, it } from "@effect/vitest"
import { ReplayServer } from "@fermata/node/testing"
import { LoginTokens, ModelClient, ModelError, OpenAiResponses } from "@fermata/sdk/model"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as FetchHttpClient from "effect/http/FetchHttpClient"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import { sourceFlags } from "../../../../scripts/internal/sourceFlags.ts"
import * as FileTokenStore from "../../src/FileTokenStore.ts"
import { login as loginOf } from "../../src/models.ts"
import { ask, eventStream, json, refusal } from "./asking.ts"

/** A path in a temporary directory. */
const temporaryFile = Effect.map(
  Effect.acquireRelease(
    Effect.promise(() => mkdtemp(join(tmpdir(), "fermata-login-"))),
    (folder) => Effect.promise(() => rm(folder, { recursive: true }))
  ),
  (folder) => join(folder, "login", "tokens.json")
)

/** An issuer that accepts each refresh token once, and numbers the tokens that it issues. */
const issuer = (options: { readonly delay?: number; readonly lifetime?: number } = {}) => {
  let given = 0
  const used = new Set<string>()
  return ReplayServer.make((request) => {
    const fields = new URLSearchParams(request.body)
    const token = fields.get("refresh_token") ?? ""
    if (used.has(token)) return refusedBy("refresh_token_reused", 401)
    used.add(token)
    given += 1
    return {
      headers: json,
      ...(options.delay === undefined ? {} : { delay: { head: options.delay } }),
      body: JSON.stringify({
        access_token: `access-${given}`,
        refresh_token: `refresh-${given}`,
        expires_in: options.lifetime ?? 3600
      })
    }
  })
}

const refusedBy = (code: string, status = 400): ReplayServer.Response => ({
  status,
  headers: json,
  body: JSON.stringify({ error: { code, message: `Your refresh token is no good: ${code}` } })
})

const expired: LoginTokens.Tokens = { accessToken: "access-0", refreshToken: "refresh-0", expiresAt: 1000 }
const good = (): LoginTokens.Tokens => ({ ...expired, expiresAt: Date.now() + 3_600_000 })

/** A login in a file, at this issuer. */
const login = (
  server: ReplayServer.ReplayServer,
  tokens: LoginTokens.Tokens | undefined,
  options: Partial<LoginTokens.Options> = {}
) =>
  Effect.gen(function* () {
    const store = FileTokenStore.make(yield* temporaryFile)
    if (tokens !== undefined) yield* store.write(tokens)
    const auth = yield* LoginTokens.make({
      profile: "tested",
      store,
      tokenUrl: `${server.url}/oauth/token`,
      clientId: "client-of-the-test",
      guidance: "Run the login again.",
      ...options
    })
    const access = Effect.map(auth.headers({ forced: false }), (headers) =>
      Redacted.value(headers.authorization!)
    )
    return { store, auth, access }
  }).pipe(Effect.provide(FetchHttpClient.layer))

/** Processes that share a login. Each prints `ready`; `ask` requests the login, which the process prints as its `next` line. */
const sharing = (server: ReplayServer.ReplayServer, file: string, count: number, logins = 1) =>
  Effect.forEach(Array.from({ length: count }), () =>
    Effect.acquireRelease(
      Effect.sync(() => {
        const program = join(import.meta.dirname, "../programs/renewLogin.ts")
        const child = spawn(
          process.execPath,
          [...sourceFlags, "--no-warnings", program, file, `${server.url}/token`, `${logins}`],
          { stdio: ["pipe", "pipe", "inherit"] }
        )
        const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]()
        return {
          child,
          ask: () => void child.stdin.write("\n"),
          next: Effect.promise(async () => (await lines.next()).value as string)
        }
      }),
      ({ child }) =>
        Effect.promise(async () => {
          child.stdin.end()
          if (child.exitCode === null) await once(child, "exit")
        })
    )
  )

describe("A login", () => {
  it.live("is used while it is good, and renewed five minutes before it ends", () =>
    Effect.gen(function* () {
      const server = yield* issuer()
      const lasting = yield* login(server, good())
      assert.strictEqual(yield* lasting.access, "Bearer access-0")
      assert.strictEqual(server.requests.length, 0)
      const ending = yield* login(server, { ...expired, expiresAt: Date.now() + 4 * 60_000 })
      assert.strictEqual(yield* ending.access, "Bearer access-1")
      const [request] = server.requests
      assert.strictEqual(request!.path, "/oauth/token")
      assert.deepStrictEqual(Object.fromEntries(new URLSearchParams(request!.body)), {
        grant_type: "refresh_token",
        client_id: "client-of-the-test",
        refresh_token: "refresh-0"
      })
      // The store holds the new refresh token: the old one is used up.
      assert.deepInclude(yield* ending.store.read, { accessToken: "access-1", refreshToken: "refresh-1" })
      assert.strictEqual(yield* ending.access, "Bearer access-1")
      assert.strictEqual(server.requests.length, 1)
    })
  )

  it.live("reads its expiry from the access token when no expiry is stored", () =>
    Effect.gen(function* () {
      const jwt = (exp: number) => `x.${Buffer.from(JSON.stringify({ exp })).toString("base64url")}.x`
      const server = yield* issuer()
      const now = Math.floor(Date.now() / 1000)
      const lasting = yield* login(server, { accessToken: jwt(now + 3600), refreshToken: "a" })
      yield* lasting.access
      assert.strictEqual(server.requests.length, 0)
      const ended = yield* login(server, { accessToken: jwt(now - 1), refreshToken: "b" })
      assert.strictEqual(yield* ended.access, "Bearer access-1")
    })
  )

  it.live("is renewed once for all concurrent callers, also when one of them is interrupted", () =>
    Effect.gen(function* () {
      const server = yield* issuer({ delay: 50 })
      // A store for one process, without a lock.
      let kept: LoginTokens.Tokens | undefined = expired
      const store: LoginTokens.TokenStore = {
        read: Effect.sync(() => kept),
        write: (tokens) => Effect.sync(() => void (kept = tokens)),
        locked: (effect) => effect
      }
      const { access } = yield* login(server, undefined, { store })
      const first = yield* Effect.forkChild(access, { startImmediately: true })
      const others = yield* Effect.forEach(Array.from({ length: 50 }), () =>
        Effect.forkChild(access, { startImmediately: true })
      )
      yield* Fiber.interrupt(first)
      const answers = yield* Effect.forEach(others, Fiber.join)
      assert.deepStrictEqual([...new Set(answers)], ["Bearer access-1"])
      assert.strictEqual(server.requests.length, 1)
    })
  )

  it.live(
    "is renewed by one of several processes, and the others use the result",
    () =>
      Effect.gen(function* () {
        const server = yield* issuer({ delay: 100 })
        const file = yield* temporaryFile
        yield* FileTokenStore.make(file).write(expired)
        const processes = yield* sharing(server, file, 3)
        const next = Effect.forEach(processes, ({ next }) => next)
        assert.deepStrictEqual(yield* next, ["ready", "ready", "ready"])
        for (const { ask } of processes) ask()
        assert.deepStrictEqual(yield* next, ["Bearer access-1", "Bearer access-1", "Bearer access-1"])
        assert.strictEqual(server.requests.length, 1)
      }),
    300_000
  )

  it.live(
    "is never renewed twice with one refresh token by concurrent processes",
    () =>
      Effect.gen(function* () {
        // Each token expires when it is issued, so that every call renews it.
        const server = yield* issuer({ delay: 5, lifetime: 0.001 })
        const file = yield* temporaryFile
        yield* FileTokenStore.make(file).write(expired)
        const processes = yield* sharing(server, file, 4)
        yield* Effect.forEach(processes, ({ next }) => next)
        const answers = yield* Effect.forEach(
          processes,
          ({ ask, next }) =>
            Effect.forEach(Array.from({ length: 15 }), () => Effect.andThen(Effect.sync(ask), next)),
          { concurrency: "unbounded" }
        )
        for (const answer of answers.flat()) assert.match(answer, /^Bearer access-\d+$/)
        const used = server.requests.map(({ body }) => new URLSearchParams(body).get("refresh_token"))
        assert.isAbove(used.length, 15)
        assert.lengthOf(new Set(used), used.length)
      }),
    300_000
  )

  it.live(
    "is never renewed twice with one refresh token by processes with several logins on one file",
    () =>
      Effect.gen(function* () {
        const server = yield* issuer({ delay: 5, lifetime: 0.001 })
        const file = yield* temporaryFile
        yield* FileTokenStore.make(file).write(expired)
        const processes = yield* sharing(server, file, 2, 3)
        yield* Effect.forEach(processes, ({ next }) => next)
        const answers = yield* Effect.forEach(
          processes,
          ({ ask, next }) =>
            Effect.forEach(Array.from({ length: 8 }), () => Effect.andThen(Effect.sync(ask), next)),
          { concurrency: "unbounded" }
        )
        for (const answer of answers.flat())
          assert.match(answer, /^Bearer access-\d+( Bearer access-\d+){2}$/)
        const used = server.requests.map(({ body }) => new URLSearchParams(body).get("refresh_token"))
        assert.isAbove(used.length, 16)
        assert.lengthOf(new Set(used), used.length)
      }),
    300_000
  )

  it.live(
    "requires a person to log in when the issuer refuses it, and its refresh token is not sent again",
    () =>
      Effect.gen(function* () {
        for (const [code, status] of [
          ["refresh_token_expired", 400],
          ["refresh_token_reused", 401],
          ["refresh_token_invalidated", 401],
          ["invalid_grant", 400],
          ["something_else", 401]
        ] as const) {
          const server = yield* ReplayServer.make(() => refusedBy(code, status))
          const { access, store } = yield* login(server, expired)
          for (let call = 0; call < 2; call++) {
            const { message, reason } = yield* Effect.flip(access)
            assert.deepInclude(reason, { _tag: "LoginRequired", profile: "tested" })
            assert.include(message, "Run the login again.")
            assert.notInclude(message, "refresh-0")
          }
          assert.strictEqual(server.requests.length, 1)
          // A person logs in; no restart is needed.
          yield* store.write({
            accessToken: "fresh",
            refreshToken: "fresh",
            expiresAt: Date.now() + 3_600_000
          })
          assert.strictEqual(yield* access, "Bearer fresh")
        }
      })
  )

  it.live("requires a person to log in when none is stored, or when it is now another account's", () =>
    Effect.gen(function* () {
      const server = yield* issuer()
      const absent = yield* login(server, undefined)
      assert.include((yield* Effect.flip(absent.access)).message, "There is no login to tested")
      const token = (account: string, expiresAt: number): LoginTokens.Tokens => ({
        accessToken: `x.${Buffer.from(JSON.stringify({ auth: { account } })).toString("base64url")}.x`,
        refreshToken: account,
        expiresAt
      })
      const account = { header: "account-id", claim: ["auth", "account"] }
      const before = yield* login(server, token("a", Date.now() + 3_600_000), { account })
      const headers = yield* before.auth.headers({ forced: false })
      assert.strictEqual(Redacted.value(headers["account-id"]!), "a")
      yield* before.store.write(token("b", Date.now() + 3_600_000))
      const swapped = yield* Effect.flip(before.auth.headers({ forced: true, given: headers }))
      assert.include(swapped.message, "Another account has logged in")
      const after = yield* before.auth.headers({ forced: false })
      assert.strictEqual(Redacted.value(after["account-id"]!), "b")
      assert.strictEqual(server.requests.length, 0)
    })
  )

  it.live("is used when it cannot be written, and written at a later call", () =>
    Effect.gen(function* () {
      const server = yield* issuer()
      const fault = new ModelError.ModelError({
        reason: new ModelError.NotAuthorized({ description: "disk full" })
      })
      let kept: LoginTokens.Tokens = expired
      let isFull = true
      const store: LoginTokens.TokenStore = {
        read: Effect.sync(() => kept),
        write: (tokens) => (isFull ? Effect.fail(fault) : Effect.sync(() => void (kept = tokens))),
        locked: (effect) => effect
      }
      const { access, auth } = yield* login(server, undefined, { store })
      assert.strictEqual(yield* access, "Bearer access-1")
      assert.strictEqual(yield* access, "Bearer access-1")
      assert.deepStrictEqual(kept, expired)
      // Renewed again while nothing can be written: with the refresh token in memory, never with the used one.
      const given = { authorization: Redacted.make("Bearer access-1") }
      const forced = yield* auth.headers({ forced: true, given })
      assert.strictEqual(Redacted.value(forced.authorization!), "Bearer access-2")
      assert.deepStrictEqual(
        server.requests.map(({ body }) => new URLSearchParams(body).get("refresh_token")),
        ["refresh-0", "refresh-1"]
      )
      isFull = false
      assert.strictEqual(yield* access, "Bearer access-2")
      assert.deepInclude(kept, { accessToken: "access-2", refreshToken: "refresh-2" })
      assert.strictEqual(server.requests.length, 2)
    })
  )

  it.live("that could not be written is replaced by a login that a person makes meanwhile", () =>
    Effect.gen(function* () {
      const server = yield* issuer()
      let kept: LoginTokens.Tokens = expired
      const store: LoginTokens.TokenStore = {
        read: Effect.sync(() => kept),
        write: () => Effect.die("disk full"),
        locked: (effect) => effect
      }
      const { access } = yield* login(server, undefined, { store })
      assert.strictEqual(yield* access, "Bearer access-1")
      kept = { ...good(), accessToken: "fresh", refreshToken: "fresh" }
      assert.strictEqual(yield* access, "Bearer fresh")
      assert.strictEqual(server.requests.length, 1)
    })
  )

  it.live("of two minutes is not renewed at every call", () =>
    Effect.gen(function* () {
      const server = yield* issuer({ lifetime: 120 })
      const { access, store } = yield* login(server, expired)
      for (let call = 0; call < 3; call++) assert.strictEqual(yield* access, "Bearer access-1")
      assert.strictEqual(server.requests.length, 1)
      // The login of another process is used, although its lifetime is unknown.
      const other = yield* login(server, good(), { store })
      const headers = yield* other.auth.headers({ forced: false })
      yield* store.write({ accessToken: "other", refreshToken: "other", expiresAt: Date.now() + 120_000 })
      for (let call = 0; call < 3; call++) {
        const next = yield* other.auth.headers({ forced: true, given: headers })
        assert.strictEqual(Redacted.value(next.authorization!), "Bearer other")
      }
      const begun = server.requests.length
      assert.strictEqual(yield* other.access, "Bearer other")
      assert.strictEqual(server.requests.length, begun)
    })
  )

  it.live("accepts its lifetime as a text, and ignores one that is not a number", () =>
    Effect.gen(function* () {
      const cases: ReadonlyArray<readonly [unknown, boolean]> = [
        ["3600", true],
        [3600, true],
        ["soon", false],
        ["9".repeat(400), false],
        [1e308, false]
      ]
      for (const [expires_in, isKnown] of cases) {
        const server = yield* ReplayServer.make(() => ({
          headers: json,
          body: JSON.stringify({ access_token: "a", refresh_token: "r", expires_in })
        }))
        const { access, store } = yield* login(server, expired)
        assert.strictEqual(yield* access, "Bearer a")
        const tokens = yield* store.read
        if (isKnown) assert.approximately(tokens!.expiresAt!, Date.now() + 3_600_000, 60_000)
        else assert.isUndefined(tokens!.expiresAt)
      }
    })
  )

  it.live("is not read from an answer of more than 1 MB", () =>
    Effect.gen(function* () {
      const long = JSON.stringify({ access_token: "a", filler: "x".repeat(2 * 1024 * 1024) })
      const server = yield* ReplayServer.make([{ headers: json, body: long, chunking: 65536 }])
      const { access } = yield* login(server, expired)
      const { reason } = yield* Effect.flip(access)
      assert.strictEqual(reason._tag, "InvalidResponse")
      assert.include(reason.description, "without an access token")
    })
  )

  it.live("is used until its end while the issuer fails", () =>
    Effect.gen(function* () {
      const server = yield* ReplayServer.make([
        refusal(503, "down"),
        refusal(503, "down"),
        refusal(400, "odd")
      ])
      const soon = yield* login(server, { ...expired, expiresAt: Date.now() + 60_000 })
      assert.strictEqual(yield* soon.access, "Bearer access-0")
      const over = yield* login(server, expired)
      const error = yield* Effect.flip(over.access)
      assert.deepInclude(error.reason, { _tag: "ProviderFault" })
      assert.isTrue(error.isRetryable)
      assert.isFalse((yield* Effect.flip(over.access)).isRetryable)
    })
  )

  it.live("fails with its guidance when the provider refuses the renewed token, too", () =>
    Effect.gen(function* () {
      const server = yield* issuer()
      const backend = yield* ReplayServer.make(() => ({
        status: 401,
        headers: json,
        body: '{"detail":"Unauthorized"}'
      }))
      const { auth, store } = yield* login(server, good())
      const lazy = loginOf({
        profile: "tested",
        store,
        tokenUrl: `${server.url}/oauth/token`,
        clientId: "client-of-the-test",
        guidance: "Run the login again."
      })
      for (const each of [auth, lazy]) {
        const client = yield* OpenAiResponses.make({ model: "m", baseUrl: backend.url, auth: each }).pipe(
          Effect.provide(FetchHttpClient.layer)
        )
        const { reason } = yield* Effect.flip(client.complete(ask()))
        assert.strictEqual(reason._tag, "LoginRequired")
        assert.include(reason.description, "Run the login again.")
        assert.include(reason.description, "Unauthorized")
      }
    })
  )

  it.live("is renewed once after a 401 for all concurrent calls", () =>
    Effect.gen(function* () {
      const server = yield* issuer()
      const answer = [
        { type: "response.output_text.delta", output_index: 0, delta: "Hello." },
        {
          type: "response.completed",
          response: { id: "r", status: "completed", output: [], usage: { input_tokens: 1, output_tokens: 1 } }
        }
      ]
      const backend = yield* ReplayServer.make((request) =>
        request.headers.authorization === "Bearer access-0"
          ? { status: 401, headers: json, body: '{"detail":"Unauthorized"}' }
          : {
              headers: eventStream,
              body: answer.map((event) => `data: ${JSON.stringify(event)}\n\n`).join("")
            }
      )
      const { auth } = yield* login(server, good())
      const client = yield* OpenAiResponses.make({
        model: "m",
        baseUrl: `${backend.url}/backend/codex`,
        auth,
        headers: { originator: "fermata-test" },
        compatibility: { streamOnly: true, store: false, maxOutputTokens: false },
        maxOutputTokens: 100
      }).pipe(Effect.provide(FetchHttpClient.layer))
      const answers = yield* Effect.forEach(
        [client.complete(ask()), client.complete(ask()), ModelClient.collect(client.stream(ask()))],
        (call) => call,
        { concurrency: "unbounded" }
      )
      for (const { content } of answers) assert.deepInclude(content[0], { _tag: "text", text: "Hello." })
      assert.strictEqual(server.requests.length, 1)
      const { body, headers, path } = backend.requests.at(-1)!
      assert.strictEqual(path, "/backend/codex/responses")
      assert.strictEqual(headers.originator, "fermata-test")
      const sent = JSON.parse(body)
      assert.deepInclude(sent, { store: false, stream: true })
      assert.notProperty(sent, "max_output_tokens")
    })
  )
})

/** Whether another process can lock the login's file now: `free` or `busy`. */
const lockedElsewhere = (file: string) =>
  Effect.promise(
    () =>
      new Promise<string>((resolve, reject) => {
        const code = `
          const { DatabaseSync } = require("node:sqlite")
          const lock = new DatabaseSync(process.argv[1], { timeout: 0 })
          try { lock.exec("BEGIN EXCLUSIVE"); console.log("free") }
          catch (error) { console.log(error.errcode === 5 ? "busy" : error.message) }`
        execFile(process.execPath, ["--no-warnings", "-e", code, `${file}.lock`], (error, stdout) =>
          error === null ? resolve(stdout.trim()) : reject(error)
        )
      })
  )

describe("The file of a login", () => {
  it.live("has mode 600 after a write, also over a file with another mode", () =>
    Effect.gen(function* () {
      const file = yield* temporaryFile
      const store = FileTokenStore.make(file)
      assert.isUndefined(yield* store.read)
      yield* store.write(expired)
      yield* Effect.promise(() => writeFile(file, JSON.stringify(expired), { mode: 0o644 }))
      yield* store.write({ ...expired, accessToken: "next" })
      assert.strictEqual((yield* Effect.promise(() => stat(file))).mode & 0o777, 0o600)
      assert.strictEqual(JSON.parse(yield* Effect.promise(() => readFile(file, "utf8"))).accessToken, "next")
    })
  )

  it.live("is refused without its content and path in the message when it holds no login", () =>
    Effect.gen(function* () {
      const file = yield* temporaryFile
      const store = FileTokenStore.make(file)
      yield* store.write(expired)
      yield* Effect.promise(() => writeFile(file, '{"accessToken": 7, "secret": "hidden"}'))
      const { message } = yield* Effect.flip(store.read)
      assert.include(message, "holds no login")
      assert.notInclude(message, "hidden")
      assert.notInclude(message, file)
    })
  )

  it.live("is locked against other callers until its holder is interrupted", () =>
    Effect.gen(function* () {
      const file = yield* temporaryFile
      const store = FileTokenStore.make(file)
      const held = yield* Deferred.make<void>()
      const holder = yield* Effect.forkChild(
        store.locked(Effect.andThen(Deferred.succeed(held, undefined), Effect.never))
      )
      yield* Deferred.await(held)
      const other = FileTokenStore.make(file).locked(Effect.succeed("mine"))
      assert.isTrue(Option.isNone(yield* Effect.timeoutOption(other, "60 millis")))
      yield* Fiber.interrupt(holder)
      assert.strictEqual(yield* other, "mine")
    })
  )

  it.live("stays locked against other processes when its own process asks for the lock again", () =>
    Effect.gen(function* () {
      const file = yield* temporaryFile
      const held = yield* Deferred.make<void>()
      const holder = yield* Effect.forkChild(
        FileTokenStore.make(file).locked(Effect.andThen(Deferred.succeed(held, undefined), Effect.never))
      )
      yield* Deferred.await(held)
      assert.strictEqual(yield* lockedElsewhere(file), "busy")
      // Its interruption waits until the second caller waits.
      const again = FileTokenStore.make(file).locked(Effect.void)
      yield* Fiber.interrupt(yield* Effect.forkChild(again, { startImmediately: true }))
      assert.strictEqual(yield* lockedElsewhere(file), "busy")
      yield* Fiber.interrupt(holder)
      assert.strictEqual(yield* lockedElsewhere(file), "free")
    })
  )

  it.live("is unlocked when the process that holds its lock is killed", () =>
    Effect.gen(function* () {
      const file = yield* temporaryFile
      const program = join(import.meta.dirname, "../programs/holdLogin.ts")
      const child = spawn(process.execPath, [...sourceFlags, "--no-warnings", program, file], {
        stdio: ["pipe", "pipe", "inherit"]
      })
      yield* Effect.promise(() => once(child.stdout, "data"))
      assert.strictEqual(yield* lockedElsewhere(file), "busy")
      child.kill("SIGKILL")
      yield* Effect.promise(() => once(child, "exit"))
      assert.strictEqual(yield* FileTokenStore.make(file).locked(Effect.succeed("mine")), "mine")
    })
  )

  it.live("has one lock for its path and a symbolic link to it, and a write keeps the link", () =>
    Effect.gen(function* () {
      const file = yield* temporaryFile
      const store = FileTokenStore.make(file)
      yield* store.write(expired)
      const folder = dirname(dirname(file))
      const link = join(folder, "tokens.json")
      yield* Effect.promise(() => symlink(join("login", "tokens.json"), link))
      const linked = FileTokenStore.make(link)
      yield* linked.write({ ...expired, accessToken: "next" })
      assert.isTrue((yield* Effect.promise(() => lstat(link))).isSymbolicLink())
      assert.isFalse((yield* Effect.promise(() => lstat(file))).isSymbolicLink())
      assert.deepInclude(yield* store.read, { accessToken: "next" })
      assert.deepInclude(yield* linked.read, { accessToken: "next" })
      yield* linked.locked(
        Effect.gen(function* () {
          assert.strictEqual(yield* lockedElsewhere(file), "busy")
          assert.deepStrictEqual(yield* Effect.promise(() => readdir(folder)), ["login", "tokens.json"])
        })
      )
      assert.sameMembers(yield* Effect.promise(() => readdir(dirname(file))), [
        "tokens.json",
        "tokens.json.lock"
      ])
    })
  )

  it.live("is created at the target of a dangling symbolic link, and refused on a circle of links", () =>
    Effect.gen(function* () {
      const folder = dirname(dirname(yield* temporaryFile))
      const target = join(folder, "elsewhere", "tokens.json")
      yield* Effect.promise(() => symlink(target, join(folder, "dangling")))
      yield* FileTokenStore.make(join(folder, "dangling")).write(expired)
      assert.deepInclude(yield* FileTokenStore.make(target).read, { accessToken: "access-0" })
      yield* Effect.promise(() => symlink("circle", join(folder, "circle")))
      const { message } = yield* Effect.flip(FileTokenStore.make(join(folder, "circle")).write(expired))
      assert.include(message, "cannot be written (ELOOP)")
      assert.notInclude(message, folder)
    })
  )
})
