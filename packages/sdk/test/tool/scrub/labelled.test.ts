import { readFileSync } from "node:fs"
import { join } from "node:path"
import { assert, describe, it } from "@effect/vitest"
import * as Scrubber from "../../../src/tool/Scrubber.ts"

interface Labelled {
  readonly id: string
  readonly category: string
  readonly spans: ReadonlyArray<readonly [number, number]>
  /** What a wrong redaction costs an agent. */
  readonly cost: "high" | "low" | null
  readonly text: string
}

const lines = readFileSync(join(import.meta.dirname, "../../fixtures/secrets/labelled.jsonl"), "utf8")
  .trim()
  .split("\n")
  .map((line) => JSON.parse(line) as Labelled)
  .map((line) => ({ ...line, text: Buffer.from(line.text, "base64").toString() }))

const { scrub } = Scrubber.make()

/** Whether six characters of a secret are left that are nowhere else in the text. */
const isLeft = ({ spans, text }: Labelled, shown: string): boolean =>
  spans.some(([start, end]) => {
    const secret = text.slice(start, end)
    const rest = `${text.slice(0, start)}\0${text.slice(end)}`
    const length = Math.min(6, secret.length)
    return Array.from({ length: secret.length - length + 1 }, (_, at) => secret.slice(at, at + length)).some(
      (piece) => shown.includes(piece) && !rest.includes(piece)
    )
  })

const secrets = lines.filter(({ spans }) => spans.length > 0)
const others = lines.filter(({ spans }) => spans.length === 0)
const changed = others.filter(({ text }) => scrub(text) !== text)

describe("339 labelled texts", () => {
  it("keep nothing usable of 98 % of their secrets", () => {
    const left = secrets.filter((line) => isLeft(line, scrub(line.text))).map(({ id }) => id)
    assert.isAtMost(left.length, secrets.length * 0.02, left.join())
  })

  it("without a secret change in no more than 2 %, and in none where an agent needs the text", () => {
    assert.isAtMost(changed.length, others.length * 0.02)
    assert.deepStrictEqual(
      changed.filter(({ cost }) => cost === "high").map(({ id }) => id),
      []
    )
  })

  it("keep every hash and every id of a provider", () => {
    const kept = others.filter(({ category }) => category === "hash" || category === "protocol-id")
    assert.isAbove(kept.length, 30)
    for (const { text } of kept) assert.strictEqual(scrub(text), text)
  })

  it("are the same after a second scrubbing", () => {
    for (const { text } of lines) assert.strictEqual(scrub(scrub(text)), scrub(text))
  })
})
