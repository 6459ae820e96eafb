/**
 * The result of a tool as the model reads it: what is scrubbed in parts and in files.
 */
import { assert, describe, it } from "@effect/vitest"
import * as Result from "effect/Result"
import { type FilePart, text, type UserPart } from "../../src/domain/Message.ts"
import { shownResult } from "../../src/tool/internal/shownResult.ts"
import * as Scrubber from "../../src/tool/Scrubber.ts"
import { content } from "../../src/tool/Tool.ts"

const secret = "a8Kf03jQmZ19xTbWv72L"
const scrubber = Scrubber.make({ secrets: { key: secret }, recognize: false })

const shown = (parts: ReadonlyArray<UserPart>): ReadonlyArray<UserPart> =>
  Result.getOrThrow(shownResult(scrubber, content(parts), 10_000))

const file = (mediaType: string, bytes: Uint8Array): FilePart => ({
  _tag: "file",
  mediaType,
  source: { _tag: "bytes", base64: Buffer.from(bytes).toString("base64") }
})

const contentOf = (part: UserPart | undefined): string =>
  part?._tag === "file" && part.source._tag === "bytes"
    ? Buffer.from(part.source.base64, "base64").toString("latin1")
    : ""

describe("the result of a tool", () => {
  it("shows no secret that its handler divided over two texts", () => {
    const halves = [text(`The key is ${secret.slice(0, 9)}`), text(secret.slice(9)), text(" now.")]
    assert.deepStrictEqual(shown(halves), [text("The key is [REDACTED:key] now.")])
    const [image] = [file("image/png", Uint8Array.of(1, 2))]
    assert.deepStrictEqual(shown([text("a"), text("b"), image, text("c"), text(secret)]), [
      text("a"),
      text("b"),
      image,
      text("c"),
      text("[REDACTED:key]")
    ])
  })

  it.each([
    "text/plain",
    "application/json",
    "application/yaml",
    "application/x-pem-file",
    "image/svg+xml",
    "application/octet-stream",
    "message/rfc822"
  ])("shows no secret in a file of %s whose bytes are UTF-8", (mediaType) => {
    const [part] = shown([file(mediaType, Buffer.from(`clé: ${secret}`))])
    assert.strictEqual(Buffer.from(contentOf(part), "latin1").toString(), "clé: [REDACTED:key]")
  })

  it("shows no secret in the name and the address of a file", () => {
    const scrubber = Scrubber.make({ secrets: { key: secret }, paths: [{ path: "/home/ann", show: "~" }] })
    const named = { ...file("image/png", Uint8Array.of(1)), name: `/home/ann/${secret}.png` }
    const url = `https://me:hunter2hunter2@example.com/home/ann/${secret}.png`
    const linked: FilePart = { _tag: "file", mediaType: "image/png", source: { _tag: "url", url } }
    assert.deepStrictEqual(Result.getOrThrow(shownResult(scrubber, content([named, linked]), 10_000)), [
      { ...named, name: "~/[REDACTED:key].png" },
      {
        ...linked,
        source: { _tag: "url", url: "https://me:[REDACTED:password]@example.com/home/ann/[REDACTED:key].png" }
      }
    ])
  })

  it("keeps the bytes of a file that is no text", () => {
    const binary = file("application/octet-stream", Buffer.concat([Uint8Array.of(0xff), Buffer.from(secret)]))
    const image = file("image/png", Buffer.from(secret))
    assert.deepStrictEqual(shown([binary, image]), [binary, image])
  })
})
