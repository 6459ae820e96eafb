import { assert, describe, it } from "@effect/vitest"
import { reportCalls } from "../../../src/run/internal/cancellation.ts"
import {
  allowed,
  approval,
  begun,
  callId,
  calls,
  decided,
  fold,
  inDoubt,
  opened,
  requestId,
  started
} from "../../domain/Journal.ts"

const by = "ada"

describe("the report of a call whose result was supplied", () => {
  for (const [turn, others] of [
    ["open", ["read_file"]],
    ["closed", []]
  ] as const) {
    it(`says in ${turn === "open" ? "an open" : "a closed"} turn that the body did not start, unless the call was in doubt`, () => {
      const [asked, doubted] = [callId(1, 1), callId(1, 2)]
      const state = fold(
        started(),
        calls("write_file", "send_mail", ...others),
        opened(approval(asked, requestId(1))),
        decided({ _tag: "supply", requestId: requestId(1), by, result: 1 }),
        allowed(doubted),
        begun(doubted),
        opened(inDoubt(doubted, requestId(2))),
        decided({ _tag: "supply", requestId: requestId(2), by, result: 2 })
      )
      assert.strictEqual(state.calls.length, turn === "open" ? 3 : 0)
      assert.deepStrictEqual(
        reportCalls(state).map(({ state }) => state),
        ["notStarted", "finished", ...others.map(() => "notStarted")]
      )
    })
  }
})
