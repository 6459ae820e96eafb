import { assert, describe, it } from "@effect/vitest"
import { answer, approve, deny, fail, supply, topUp } from "../../src/promise/decisions.ts"
import { isDecisionMalformed } from "../../src/promise/guards.ts"

/** The sentence with which a function of a decision refuses its arguments. */
const refusal = (decide: () => unknown): string => {
  try {
    return `taken: ${JSON.stringify(decide())}`
  } catch (error) {
    assert.isTrue(isDecisionMalformed(error), String(error))
    return (error as Error).message
  }
}

describe("a decision with a value of the wrong type", () => {
  const cases: ReadonlyArray<readonly [string, () => unknown, string]> = [
    ["deny", () => deny(5 as never), '"message" of the decision takes a string, and a number was given'],
    [
      "deny",
      () => deny({ message: "no" } as never),
      '"message" of the decision takes a string, and an object'
    ],
    [
      "deny",
      () => deny("no", { then: "stpo" } as never),
      '"then" of the options of deny takes "continue" or'
    ],
    ["answer", () => answer(5 as never), '"answer" of the decision takes a string, and a number was given'],
    ["answer", () => (answer as () => unknown)(), '"answer" of the decision is missing: it takes a string'],
    ["supply", () => supply((() => 1) as never), '"result" of the decision takes plain JSON data'],
    ["supply", () => supply(new Date() as never), '"result" of the decision takes plain JSON data'],
    ["supply", () => supply(undefined as never), '"result" of the decision is missing'],
    ["fail", () => fail(5 as never), '"message" of the decision takes a string'],
    [
      "topUp",
      () => topUp("9" as never),
      '"limit" of the decision takes a finite number, and a string was given'
    ],
    ["topUp", () => topUp(Number.NaN), "and NaN was given"],
    ["topUp", () => topUp({ limit: 9 } as never), '"limit" of the decision takes a finite number'],
    [
      "approve",
      () => approve({ arguments: (() => 1) as never }),
      '"arguments" of the options of approve takes'
    ],
    ["approve", () => approve({ grant: "run" as never }), "has to be a plain object"],
    ["approve", () => approve({ grant: {} as never }), '"grant.scope" of the options of approve is missing'],
    [
      "approve",
      () => approve({ grant: { scope: "runn" } as never }),
      '"grant.scope" of the options of approve takes "run" or "session", and another text was given'
    ],
    [
      "approve",
      () => approve({ grant: { scope: "run", expiresAt: "tomorrow" } as never }),
      '"grant.expiresAt" of the options of approve takes a finite number of milliseconds'
    ]
  ]
  for (const [name, decide, problem] of cases)
    it(`is refused by \`${name}\` (${problem})`, () => assert.include(refusal(decide), problem))
})

it("decisions hold what was given to their functions", () => {
  const grant = { scope: "run", arguments: {}, expiresAt: 1, inherit: true } as const
  assert.deepStrictEqual<unknown>(
    [
      approve({ arguments: { to: "bob" }, grant }),
      deny(),
      deny("no", { then: "stop" }),
      answer(""),
      supply(null)
    ],
    [
      { _tag: "approve", arguments: { to: "bob" }, grant },
      { _tag: "deny" },
      { _tag: "deny", message: "no", then: "stop" },
      { _tag: "answer", answer: "" },
      { _tag: "supply", result: null }
    ]
  )
  assert.deepStrictEqual<unknown>(
    [fail(), fail("gone"), topUp(9)],
    [{ _tag: "fail" }, { _tag: "fail", message: "gone" }, { _tag: "topUp", limit: 9 }]
  )
})
