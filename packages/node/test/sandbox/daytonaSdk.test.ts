/**
 * Daytona's own client against the server of the tests, so that the server speaks what Daytona's client expects. The client is no dependency:
 * set `FERMATA_DAYTONA_SDK` to the path of an installed `@daytonaio/sdk`.
 */
import { execFile } from "node:child_process"
import { join } from "node:path"
import { promisify } from "node:util"
import { assert, describe, it } from "@effect/vitest"
import { daytonaSandbox } from "@fermata/node"
import * as Effect from "effect/Effect"
import { createIn } from "./contract.ts"
import { apiKey, daytonaServer } from "./daytonaServer.ts"

const run = promisify(execFile)
const program = join(import.meta.dirname, "../programs/daytonaClient.ts")

const path = process.env["FERMATA_DAYTONA_SDK"]
const why = path === undefined ? ": FERMATA_DAYTONA_SDK names no installed @daytonaio/sdk" : ""

describe.skipIf(path === undefined)(`Daytona's own client and ours${why}`, () => {
  it.live(
    "use the same sandboxes, sessions and files",
    () =>
      Effect.gen(function* () {
        const server = yield* daytonaServer
        const ours = yield* createIn({
          provider: daytonaSandbox({ apiKey, apiUrl: server.apiUrl }),
          lose: () => Effect.void
        })
        yield* ours.exec("echo out; exit 3", { session: "run_1:call_1" })
        yield* ours.files.writeFile(
          "data.bin",
          Uint8Array.from({ length: 256 }, (_, at) => at)
        )
        const { id, workdir } = ours.ref
        const args = [program, path!, server.apiUrl, apiKey, id, workdir]
        const seen = yield* Effect.promise(async () => JSON.parse((await run(process.execPath, args)).stdout))
        assert.deepStrictEqual(seen, {
          workDir: workdir,
          exitCodes: [3],
          bytes: Array.from({ length: 256 }, (_, at) => at),
          session: { stdout: "one\n", stderr: "two\n", exitCode: 4 },
          executed: { exitCode: 1, result: "hi\n" }
        })
        // The one that it made and deleted is gone.
        assert.deepStrictEqual([...server.boxes.keys()], [id])
        assert.strictEqual(yield* ours.files.readFileString("theirs.txt"), "theirs")
        const found = yield* ours.findCommand("run_1:call_2")
        assert.strictEqual(found._tag, "ended")
        if (found._tag === "ended")
          assert.deepInclude(found.result, { exitCode: 4, stdout: "one\n", stderr: "two\n" })
      }).pipe(Effect.scoped),
    120_000
  )
})
