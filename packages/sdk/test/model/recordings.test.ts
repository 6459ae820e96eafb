import { assert, describe, it } from "@effect/vitest"
import { createHash } from "node:crypto"
import type { ProtocolName } from "../../src/model/ModelProfile.ts"
import { fixtures } from "./Fixtures.ts"

describe("the recorded answers", () => {
  it.each<{ readonly protocol: ProtocolName; readonly count: number }>([
    { protocol: "chat", count: 33 },
    { protocol: "responses", count: 26 },
    { protocol: "messages", count: 10 }
  ])("of $protocol are $count, byte for byte as the providers sent them", ({ count, protocol }) => {
    const recorded = fixtures(protocol)
    assert.lengthOf(recorded, count)
    for (const { bytes, name, sha256 } of recorded) {
      assert.strictEqual(createHash("sha256").update(bytes).digest("hex"), sha256, name)
    }
  })
})
