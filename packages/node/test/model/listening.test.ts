/** What may listen at a model's address, on raw sockets: a web server would not send these bytes. */
import { type AddressInfo, createServer, type Server } from "node:net"
import { assert, describe, it } from "@effect/vitest"
import { ReplayServer } from "@fermata/node/testing"
import type { ModelError } from "@fermata/sdk/model"
import * as Effect from "effect/Effect"
import { ask, hello, pieces } from "./asking.ts"
import { both, served, textIn } from "./serving.ts"

/** A listener that writes these bytes to each client. Returns its port. */
const listening = (bytes: string) =>
  Effect.map(
    Effect.acquireRelease(
      Effect.promise(
        () =>
          new Promise<Server>((resolve) => {
            const server = createServer((socket) => {
              socket.on("error", () => {})
              socket.once("data", () => socket.end(bytes))
            })
            server.listen(0, "127.0.0.1", () => resolve(server))
          })
      ),
      (server) => Effect.promise(() => new Promise((resolve) => server.close(resolve)))
    ),
    (server) => (server.address() as AddressInfo).port
  )

describe("A listener at a model's address", () => {
  const head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n"
  const body = hello.body as string
  const cases: ReadonlyArray<readonly [string, string, ModelError.Reason["_tag"], string]> = [
    ["is no HTTP server", "SSH-2.0-OpenSSH_9\r\n", "ConnectionLost", "the response is not HTTP"],
    ["sends nothing", "", "ConnectionLost", "it was closed"],
    ["stops within its head", "HTTP/1.1 200 OK\r\nContent-Ty", "ConnectionLost", "it was closed"],
    [
      "sends an endless head",
      `HTTP/1.1 200 OK\r\nx: ${"y".repeat(200_000)}`,
      "ConnectionLost",
      "HEADERS_OVERFLOW"
    ],
    [
      "sends less than its content-length",
      `${head}content-length: 99999\r\n\r\n${pieces("Hel")}`,
      "ConnectionLost",
      "it was closed"
    ],
    [
      "sends more than its content-length",
      `${head}content-length: 20\r\n\r\n${body}`,
      "ConnectionLost",
      "cut off before its end"
    ],
    [
      "sends two content-lengths",
      `${head}content-length: 5\r\ncontent-length: 6\r\n\r\n${body}`,
      "ConnectionLost",
      "MISMATCH"
    ],
    [
      "sends a malformed chunk size",
      `${head}transfer-encoding: chunked\r\n\r\nZZ\r\n${body}`,
      "ConnectionLost",
      "not HTTP"
    ],
    [
      "sends plain text as gzip",
      `${head}content-encoding: gzip\r\nconnection: close\r\n\r\n${body}`,
      "ConnectionLost",
      "Z_DATA_ERROR"
    ],
    [
      "answers 304",
      "HTTP/1.1 304 Not Modified\r\n\r\n",
      "InvalidResponse",
      "status 304, which is neither an answer nor an error"
    ],
    [
      "redirects to an invalid address",
      "HTTP/1.1 302 Found\r\nlocation: http://[bad\r\ncontent-length: 0\r\n\r\n",
      "InvalidResponse",
      "another address"
    ],
    ["answers 999", "HTTP/1.1 999 X\r\ncontent-length: 2\r\n\r\nno", "ProviderFault", "no"]
  ]
  for (const [name, bytes, tag, words] of cases) {
    it.live(`fails the call with a model error when it ${name}`, () =>
      Effect.gen(function* () {
        const port = yield* listening(bytes)
        const { client } = yield* served("chat", [], { baseUrl: `http://127.0.0.1:${port}/v1` })
        for (const call of both(client)) {
          const { reason } = yield* Effect.flip(call)
          assert.strictEqual(reason._tag, tag)
          assert.include(reason.description, words)
        }
      })
    )
  }

  it.live("is named as speaking no https when https was asked for, and the call is not retried", () =>
    Effect.gen(function* () {
      const server = yield* ReplayServer.make([hello])
      const { client } = yield* served("chat", [], {
        baseUrl: `${server.url.replace("http:", "https:")}/v1`,
        retry: { times: 4, base: "1 hour" }
      })
      const error = yield* Effect.flip(client.complete(ask()))
      assert.include(error.message, "does not speak https")
      assert.isFalse(error.isRetryable)
    })
  )

  it.live("may end its answer by closing the connection, with HTTP/1.0, or with status 206", () =>
    Effect.gen(function* () {
      for (const bytes of [
        `${head}connection: close\r\n\r\n${body}`,
        `HTTP/1.0 200 OK\r\ncontent-type: text/event-stream\r\n\r\n${body}`,
        `HTTP/1.1 206 Partial\r\nconnection: close\r\n\r\n${body}`
      ]) {
        const port = yield* listening(bytes)
        const { client } = yield* served("chat", [], { baseUrl: `http://127.0.0.1:${port}/v1` })
        for (const call of both(client)) assert.strictEqual(textIn(yield* call), "Hello.")
      }
    })
  )
})
