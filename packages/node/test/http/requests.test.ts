import { assert, describe, it } from "@effect/vitest"
import { FermataApi } from "@fermata/node/http"
import { ControlRejection } from "@fermata/sdk/control/CommandRejection"
import { served } from "./serving.ts"

describe("the OpenAPI document", () => {
  it("has every rejection of a command", () => {
    const document = JSON.stringify(FermataApi.openApi())
    for (const { identifier } of ControlRejection.members) assert.include(document, `"${identifier}"`)
  })
})

describe("a request that fits no path or no parameters", () => {
  it("is refused with a status and a sentence, and unknown parameters are refused, too", async () => {
    await using at = await served()
    const get = async (path: string) => {
      const response = await fetch(`${at.server.url}${path}`, {
        headers: { authorization: `Bearer ${at.server.token}` }
      })
      const { message, reason } = (await response.json()) as Readonly<Record<string, string>>
      assert.isString(message)
      return [response.status, reason]
    }
    assert.deepStrictEqual(await get("/v1/nothing"), [404, "PathUnknown"])
    assert.deepStrictEqual(await get("/"), [404, "PathUnknown"])
    assert.deepStrictEqual(await get("/v1/runs?limit=many"), [400, "ParametersInvalid"])
    assert.deepStrictEqual(await get("/v1/runs?statsu=held"), [400, "ParametersInvalid"])
    assert.deepStrictEqual(await get("/v1/runs?status=halted"), [400, "ParametersInvalid"])
  })

  it("is refused if its Last-Event-ID is no cursor", async () => {
    await using at = await served()
    for (const id of ["7", "x.y", "../../etc", `e.1;${"t=1;".repeat(2000)}`]) {
      const response = await fetch(`${at.server.url}/v1/events`, {
        headers: { authorization: `Bearer ${at.server.token}`, "last-event-id": id }
      })
      assert.strictEqual(response.status, 400)
      assert.match(await response.text(), /snapshot/)
    }
  })
})
