import { assert, describe, it } from "@effect/vitest"
import * as Tool from "../../src/tool/Tool.ts"
import * as ToolResource from "../../src/tool/ToolResource.ts"

describe("the resource of tools", () => {
  it("is closed by the end of its last use, and a use that is ended twice counts once", async () => {
    let closed = 0
    const tool = Tool.make("query", { handler: () => "three rows" })
    const resource = ToolResource.attach([tool], async () => void (closed += 1))
    const [first, second] = [resource.use(), resource.use()]
    await first()
    await first()
    assert.deepStrictEqual([closed, resource.isClosed()], [0, false])
    await second()
    await second()
    assert.deepStrictEqual([closed, resource.isClosed()], [1, true])
    assert.strictEqual(ToolResource.resourceOf(tool), resource)
  })
})
