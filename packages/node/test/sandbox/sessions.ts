/**
 * What every sandbox with the capability `sessions` does, as a suite over a provider.
 */
import { assert, describe, it } from "@effect/vitest"
import type { Sandbox } from "@fermata/sdk"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import type * as Scope from "effect/Scope"
import { type ContractOptions, createIn, type Subject } from "./contract.ts"

/** The suite. */
export const sessionContract = (
  name: string,
  make: Effect.Effect<Subject, never, Scope.Scope>,
  { skip, timeoutMs = 60_000 }: Pick<ContractOptions, "skip" | "timeoutMs"> = {}
): void => {
  const why = skip === undefined ? "" : `: ${skip}`
  describe.skipIf(skip !== undefined)(`the sessions of sandboxes (${name})${why}`, () => {
    const test = (
      title: string,
      body: (sandbox: Sandbox.Shape, subject: Subject) => Effect.Effect<void, unknown, Scope.Scope>
    ) =>
      it.live(
        title,
        () =>
          Effect.gen(function* () {
            const subject = yield* make
            yield* body(yield* createIn(subject), subject)
          }).pipe(Effect.scoped),
        timeoutMs
      )

    test("do not run a command again, and give its first result", (sandbox) =>
      Effect.gen(function* () {
        const session = "run_1:call_1"
        const line = "echo ran >> log; echo out; echo err >&2; exit 3"
        assert.deepStrictEqual(yield* sandbox.findCommand(session), { _tag: "unknown" })
        const first = yield* sandbox.exec(line, { session })
        assert.deepInclude(first, { exitCode: 3, stdout: "out\n", stderr: "err\n" })
        const again = yield* sandbox.exec("echo other; exit 0", { session })
        assert.deepInclude(again, { exitCode: 3, stdout: "out\n", stderr: "err\n" })
        assert.strictEqual(yield* sandbox.files.readFileString("log"), "ran\n")
        const found = yield* sandbox.findCommand(session)
        assert.strictEqual(found._tag, "ended")
        if (found._tag === "ended")
          assert.deepInclude(found.result, { exitCode: 3, stdout: "out\n", stderr: "err\n", timedOut: false })
        assert.strictEqual((yield* sandbox.exec("echo other", { session: "run_1:call_2" })).stdout, "other\n")
      }))

    test("take any id", (sandbox) =>
      Effect.gen(function* () {
        const ids = ["../x", "a/b", "'; exit 1", "ä🎵", "x".repeat(200), "$HOME", "."]
        const outputs = (line: (at: number) => string) =>
          Effect.forEach(
            ids,
            (session, at) => Effect.map(sandbox.exec(line(at), { session }), ({ stdout }) => stdout),
            { concurrency: "unbounded" }
          )
        const first = ids.map((_, at) => `${at}\n`)
        assert.deepStrictEqual(yield* outputs((at) => `echo ${at}`), first)
        assert.deepStrictEqual(yield* outputs(() => "echo again"), first)
      }))

    test("say that a command runs, and are followed by a second caller", (sandbox, { provider }) =>
      Effect.gen(function* () {
        const session = "run_1:call_1"
        const ready = yield* Deferred.make<void>()
        const line = "echo ready; until [ -e go ]; do sleep 0.02; done; echo done"
        const running = yield* Effect.forkScoped(
          sandbox.exec(line, { session, onOutput: () => Deferred.doneUnsafe(ready, Effect.void) })
        )
        yield* Deferred.await(ready)
        const other = yield* provider.attach(sandbox.ref)
        assert.deepStrictEqual(yield* other.findCommand(session), { _tag: "running" })
        const following = yield* Effect.forkScoped(other.exec(line, { session }))
        yield* other.files.writeFileString("go", "")
        for (const fiber of [running, following])
          assert.deepInclude(yield* Fiber.join(fiber), { exitCode: 0, stdout: "ready\ndone\n" })
      }))

    test("know how a command ended that was stopped", (sandbox) =>
      Effect.gen(function* () {
        const session = "run_1:call_1"
        const stopped = yield* sandbox.exec("echo ready; sleep 600", { session, timeout: "1 second" })
        assert.isTrue(stopped.timedOut)
        const found = yield* sandbox.findCommand(session)
        assert.strictEqual(found._tag, "ended")
        if (found._tag === "ended") assert.isAbove(found.result.exitCode, 128)
      }))

    test("stop no command whose id contains that of the stopped one", (sandbox) =>
      Effect.gen(function* () {
        const ready = yield* Deferred.make<void>()
        const other = yield* Effect.forkScoped(
          sandbox.exec("echo ready; until [ -e go ]; do sleep 0.02; done; exit 4", {
            session: "a_run_1.t1.10",
            onOutput: () => Deferred.doneUnsafe(ready, Effect.void)
          })
        )
        yield* Deferred.await(ready)
        const stopped = yield* sandbox.exec("sleep 600", { session: "run_1.t1.1", timeout: "1 second" })
        assert.isTrue(stopped.timedOut)
        yield* sandbox.files.writeFileString("go", "")
        assert.strictEqual((yield* Fiber.join(other)).exitCode, 4)
      }))

    test("stop the descendants of a command, also those that left its group and ignore SIGTERM", (sandbox) =>
      Effect.gen(function* () {
        const line =
          "setsid sh -c 'trap \"\" TERM; echo $$ > pid; while :; do sleep 0.05; done' & while :; do sleep 0.05; done"
        const ready = "until [ -s pid ]; do sleep 0.02; done"
        const running = yield* Effect.forkScoped(sandbox.exec(line))
        yield* sandbox.exec(ready)
        yield* Fiber.interrupt(running)
        // One that has ended and was not reaped yet is a zombie.
        const look =
          "kill -0 $(cat pid) 2>/dev/null && ! grep -q '^State:.*Z' /proc/$(cat pid)/status || echo gone"
        assert.strictEqual((yield* sandbox.exec(look)).stdout, "gone\n")
      }))
  })
}
