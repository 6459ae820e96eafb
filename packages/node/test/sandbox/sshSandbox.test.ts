import { rmSync } from "node:fs"
import { sshSandbox } from "@fermata/node"
import * as Effect from "effect/Effect"
import { sandboxContract } from "./contract.ts"
import { sessionContract } from "./sessions.ts"
import { noSshServer, sshServer } from "./sshServer.ts"
import { temporaryDirectory } from "./temporaryDirectory.ts"

const subject = Effect.gen(function* () {
  const { options } = yield* sshServer
  const { workdir } = yield* temporaryDirectory
  return {
    provider: sshSandbox(options),
    workdir,
    lose: () => Effect.sync(() => rmSync(workdir, { recursive: true }))
  }
})

sandboxContract("ssh", subject, { skip: noSshServer, timeoutMs: 60_000 })

sessionContract("ssh", subject, { skip: noSshServer })
