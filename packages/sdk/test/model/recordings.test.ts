import { createHash } from "node:crypto"
import { readFileSync } from "node:fs"
import { join } from "node:path"
import { assert, describe, it } from "@effect/vitest"
import type { ProtocolName } from "../../src/model/ModelProfile.ts"
import { fixtures } from "./Fixtures.ts"

describe("the recorded answers", () => {
  it.each<{ readonly protocol: ProtocolName; readonly count: number }>([
    { protocol: "chat", count: 33 },
    { protocol: "responses", count: 26 },
    { protocol: "messages", count: 10 }
  ])("of $protocol are $count, and unchanged", ({ count, protocol }) => {
    const recorded = fixtures(protocol)
    assert.lengthOf(recorded, count)
    for (const { bytes, name, sha256 } of recorded) {
      assert.strictEqual(createHash("sha256").update(bytes).digest("hex"), sha256, name)
    }
  })

  it("with disagreements between libraries are those in DISAGREEMENTS.md", () => {
    const folder = join(import.meta.dirname, "../fixtures/models")
    const differing = (["chat", "responses", "messages"] as const).flatMap((protocol) =>
      fixtures(protocol)
        .map(({ name }) => `${protocol}/${name}`)
        .filter((path) => {
          const { disagreements } = JSON.parse(readFileSync(join(folder, path, "expected.json"), "utf8"))
          return disagreements.length > 0
        })
    )
    const note = readFileSync(join(folder, "DISAGREEMENTS.md"), "utf8")
    const explained = [...note.matchAll(/^\| ((?:chat|responses|messages)\/\S+)/gm)].map(([, path]) => path)
    assert.lengthOf(differing, 18)
    assert.sameMembers(explained, differing)
  })
})
