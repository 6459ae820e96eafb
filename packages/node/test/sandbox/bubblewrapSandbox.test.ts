import { rmSync } from "node:fs"
import { bubblewrapSandbox } from "@fermata/node"
import * as Effect from "effect/Effect"
import { withoutBubblewrap } from "./bubblewrap.ts"
import { sandboxContract } from "./contract.ts"
import { temporaryDirectory } from "./temporaryDirectory.ts"

const subject = Effect.map(temporaryDirectory, ({ workdir }) => ({
  provider: bubblewrapSandbox(),
  workdir,
  lose: () => Effect.sync(() => rmSync(workdir, { recursive: true }))
}))

sandboxContract("bubblewrap", subject, { skip: withoutBubblewrap })
