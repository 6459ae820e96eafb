import { describe, expect, it } from "tstyche"
import type * as Id from "../../src/domain/Id.ts"

describe("Id", () => {
  it("keeps the kinds of ids apart", () => {
    expect<Id.ToolCallId>().type.not.toBeAssignableTo<Id.RunId>()
    expect<Id.RequestId>().type.not.toBeAssignableTo<Id.ToolCallId>()
    expect<string>().type.not.toBeAssignableTo<Id.RunId>()
  })

  it("makes every id assignable to a string", () => {
    expect<Id.RunId>().type.toBeAssignableTo<string>()
  })
})
