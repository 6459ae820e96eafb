import { chmodSync, mkdirSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { assert, describe, it } from "@effect/vitest"
import { machineSandbox, OptionsInvalid } from "@fermata/node"
import * as Effect from "effect/Effect"
import { withoutBubblewrap } from "./bubblewrap.ts"
import { temporaryDirectory } from "./temporaryDirectory.ts"
import { withVariables } from "./withVariables.ts"

describe("machineSandbox", () => {
  it.skipIf(withoutBubblewrap !== undefined)("is confined where bubblewrap works", () => {
    const provider = machineSandbox({ network: true })
    assert.strictEqual(provider.backend, "bubblewrap")
    assert.isTrue(provider.capabilities.has("isolated"))
    assert.include(provider.target, "with network")
  })

  it.live("is not confined elsewhere, says so, and goes on with no run that began confined", () =>
    Effect.gen(function* () {
      const { top } = yield* temporaryDirectory
      // A program that only pretends to be bubblewrap confines nothing.
      mkdirSync(join(top, "bin"))
      writeFileSync(join(top, "bin/bwrap"), "#!/bin/sh\nexit 0\n")
      chmodSync(join(top, "bin/bwrap"), 0o755)
      for (const path of [top, join(top, "bin")]) {
        const provider = yield* withVariables(
          { PATH: path },
          Effect.sync(() => machineSandbox({ workdir: top, hide: ["/usr"], network: false }))
        )
        assert.strictEqual(provider.target, "this machine, not confined")
        assert.deepStrictEqual([...provider.capabilities], [])
        assert.isFalse(provider.accepts({ backend: "bubblewrap", id: "run_1", workdir: top }))
      }
    })
  )

  it("refuses options that are none, wherever it is", () => {
    assert.throws(() => machineSandbox({ net: true } as object), OptionsInvalid.OptionsInvalid)
  })
})
