/**
 * Asks for the headers of a login, once for each line on the standard input, and prints the access token that it got.
 * Arguments: the file with the tokens, the issuer's token endpoint.
 */
import { createInterface } from "node:readline"
import * as Effect from "effect/Effect"
import * as FetchHttpClient from "effect/http/FetchHttpClient"
import * as Redacted from "effect/Redacted"
import * as FileTokenStore from "../../src/FileTokenStore.ts"
import { LoginTokens } from "@fermata/sdk/model"

const [file, tokenUrl] = process.argv.slice(2)

const auth = await Effect.runPromise(
  LoginTokens.make({
    profile: "tested",
    store: FileTokenStore.make(file!),
    tokenUrl: tokenUrl!,
    clientId: "client-of-the-test"
  }).pipe(Effect.provide(FetchHttpClient.layer))
)
process.stdout.write("ready\n")

for await (const _ of createInterface({ input: process.stdin })) {
  const answer = await Effect.runPromise(
    Effect.match(auth.headers({ forced: false }), {
      onSuccess: (headers) => Redacted.value(headers.authorization!),
      onFailure: (error) => error.reason._tag
    })
  )
  process.stdout.write(`${answer}\n`)
}
