/**
 * Requests the headers of its logins at the same time, once for each line of its input, and prints the access tokens. Arguments: the
 * file with the tokens, the issuer's token endpoint, the number of logins (default: 1).
 */
import { createInterface } from "node:readline"
import { LoginTokens } from "@fermata/sdk/model"
import * as Effect from "effect/Effect"
import * as FetchHttpClient from "effect/http/FetchHttpClient"
import * as Redacted from "effect/Redacted"
import * as FileTokenStore from "../../src/FileTokenStore.ts"

const [file, tokenUrl, count = "1"] = process.argv.slice(2)

const logins = await Effect.runPromise(
  Effect.forEach(Array.from({ length: Number(count) }), () =>
    LoginTokens.make({
      profile: "tested",
      store: FileTokenStore.make(file!),
      tokenUrl: tokenUrl!,
      clientId: "client-of-the-test"
    })
  ).pipe(Effect.provide(FetchHttpClient.layer))
)
process.stdout.write("ready\n")

for await (const _ of createInterface({ input: process.stdin })) {
  const answers = await Effect.runPromise(
    Effect.forEach(
      logins,
      (auth) =>
        Effect.match(auth.headers({ forced: false }), {
          onSuccess: (headers) => Redacted.value(headers.authorization!),
          onFailure: (error) => error.reason._tag
        }),
      { concurrency: "unbounded" }
    )
  )
  process.stdout.write(`${answers.join(" ")}\n`)
}
