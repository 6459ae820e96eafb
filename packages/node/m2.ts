import { bubblewrapSandbox, localSandbox, Id } from "@fermata/node"
import { Effect, Fiber, Deferred } from "effect"
import { mkdtempSync } from "node:fs"
const workdir = mkdtempSync("/tmp/meas-")
const spec = { runId: Id.RunId.make("run_1"), sessionId: Id.SessionId.make("session_1"), workdir }
for (const p of [localSandbox(), bubblewrapSandbox()]) {
  await Effect.runPromise(Effect.scoped(Effect.gen(function* () {
    const s = yield* p.create(spec)
    const t: number[] = []
    for (let i = 0; i < 20; i++) {
      const ready = yield* Deferred.make<void>()
      const f = yield* Effect.forkScoped(s.exec("echo ready; sleep 600; : text", { onOutput: () => Deferred.doneUnsafe(ready, Effect.void) }))
      yield* Deferred.await(ready)
      const t0 = performance.now()
      yield* Fiber.interrupt(f)
      t.push(Math.round(performance.now() - t0))
    }
    console.log(p.backend, "cancel", t.join(" "))
  })))
}
