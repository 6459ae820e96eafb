import { daytonaSandbox } from "@fermata/node"
import * as Effect from "effect/Effect"
import { sandboxContract } from "./contract.ts"
import { apiKey, daytonaServer } from "./daytonaServer.ts"
import { sessionContract } from "./sessions.ts"

const subject = Effect.map(daytonaServer, (server) => ({
  provider: daytonaSandbox({ apiKey, apiUrl: server.apiUrl }),
  lose: () => Effect.sync(() => server.boxes.clear())
}))

sandboxContract("Daytona", subject, { timeoutMs: 60_000 })

sessionContract("Daytona", subject)
