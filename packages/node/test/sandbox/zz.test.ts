import { it } from "@effect/vitest"
import { sshSandbox, localSandbox } from "@fermata/node"
import * as Effect from "effect/Effect"
import { createIn } from "./contract.ts"
import { sshServer } from "./sshServer.ts"
import { temporaryDirectory } from "./temporaryDirectory.ts"
it.live(
  "lat",
  () =>
    Effect.gen(function* () {
      const { options } = yield* sshServer
      const { workdir } = yield* temporaryDirectory
      let t0 = performance.now()
      const s = yield* createIn({ provider: sshSandbox(options), workdir, lose: () => Effect.void })
      console.log("open", performance.now() - t0)
      for (let i = 0; i < 4; i++) {
        t0 = performance.now()
        yield* s.exec("echo hi", { onOutput: () => console.log("first", performance.now() - t0) })
        console.log("exec", performance.now() - t0)
      }
      for (let i = 0; i < 3; i++) {
        t0 = performance.now()
        yield* s.files.exists("a")
        console.log("exists", performance.now() - t0)
      }
      const l = yield* createIn({ provider: localSandbox(), workdir, lose: () => Effect.void })
      for (let i = 0; i < 3; i++) {
        t0 = performance.now()
        yield* l.exec("echo hi")
        console.log("local exec", performance.now() - t0)
      }
    }).pipe(Effect.scoped),
  60000
)
