import { runInNewContext } from "node:vm"
import { assert, describe, it } from "@effect/vitest"
import * as Result from "effect/Result"
import { bodyMisfits, checkLimits, checkPolicy, decisionMisfits } from "../../../src/domain/internal/given.ts"
import { either, flag, keysOf, misfits, oneOf, optionMisfits } from "../../../src/domain/internal/misfits.ts"

const approve = (fields: object) => ({ _tag: "approve", requestId: "r.r1", by: "ana", ...fields })
const granting = (grant: object) => approve({ grant: { scope: "run", ...grant } })

/** The first problem of a decision. */
const wrong = (decision: unknown) => decisionMisfits(decision)[0]

describe("the keys of a decision", () => {
  it("are refused when unknown, with their place and the nearest known key", () => {
    assert.deepStrictEqual(wrong(granting({ expiresIn: 1000 })), {
      place: '"grant" of the decision',
      key: "expiresIn",
      nearest: "expiresAt",
      problem: 'there is no "expiresIn" in "grant" of the decision (did you mean "expiresAt"?)'
    })
    assert.strictEqual(wrong(approve({ args: { to: "bob" } }))?.nearest, "arguments")
    assert.strictEqual(wrong({ _tag: "deny", requestId: "r.r1", by: "ana", Then: "stop" })?.nearest, "then")
    const glob = { _tag: "glob", pattern: "a*", exact: true }
    assert.strictEqual(
      wrong(granting({ arguments: { to: glob } }))?.place,
      '"grant.arguments.to" of the decision'
    )
    assert.strictEqual(
      wrong(approve({ by: { id: "ana", kind: "person", authn: "oidc" } }))?.place,
      '"by" of the decision'
    )
  })

  it("are those of its own kind", () => {
    assert.strictEqual(wrong(approve({ answer: "yes" }))?.key, "answer")
    assert.strictEqual(
      wrong({ _tag: "deny", requestId: "r.r1", by: "ana", grant: { scope: "run" } })?.key,
      "grant"
    )
  })

  it("cannot hide in a map, a class, a prototype or a symbol", () => {
    class Patterns {
      readonly to = { _tag: "equals", value: "bob" }
    }
    const patterns = { to: { _tag: "equals", value: "bob" } }
    for (const hidden of [
      new Map(Object.entries(patterns)),
      new Patterns(),
      Object.create(patterns) as object,
      { [Symbol("to")]: patterns.to },
      [patterns.to]
    ]) {
      assert.strictEqual(decisionMisfits(granting({ arguments: hidden })).length, 1, String(hidden))
    }
    assert.strictEqual(wrong(new Map([["_tag", "approve"]]))?.place, "the decision")
  })

  it("cannot hide in non-enumerable fields or on an object that passes for Object.prototype", () => {
    const to = { _tag: "equals", value: "bob" }
    const unseen = (name: PropertyKey, value: unknown): object => Object.defineProperty({}, name, { value })
    const passing: object = Object.assign(Object.create(null) as object, { to, isPrototypeOf: () => true })
    for (const hidden of [unseen("to", to), unseen(Symbol("to"), to), Object.create(passing) as object])
      assert.strictEqual(decisionMisfits(granting({ arguments: hidden })).length, 1)
    const grant = Object.defineProperty({ scope: "run" }, "expiresAt", { value: 1 })
    const expiring = approve({ grant })
    assert.deepInclude(wrong(expiring), { key: "expiresAt", place: '"grant" of the decision' })
    assert.include(wrong(expiring)?.problem, "not enumerable")
  })

  it("may be all known ones, in an object of any realm or without a prototype", () => {
    const full = granting({
      arguments: { to: { _tag: "equals", value: "bob" }, of: { _tag: "glob", pattern: "*" } },
      expiresAt: 1,
      inherit: true
    })
    const foreign: unknown = runInNewContext(`(${JSON.stringify(full)})`)
    const bare: unknown = Object.assign(Object.create(null) as object, full)
    for (const decision of [full, foreign, bare]) assert.deepStrictEqual(decisionMisfits(decision), [])
    const principal = { id: "ana", kind: "person", authenticated: "oidc" }
    assert.deepStrictEqual(decisionMisfits({ ...full, by: principal, principal, digest: "d" }), [])
  })

  it("exclude those that the runtime adds", () => {
    for (const key of ["at", "schema"]) assert.strictEqual(wrong({ _tag: "approve", [key]: 1 })?.key, key)
  })

  it("exclude those that the caller gives beside the decision's body", () => {
    for (const key of ["by", "principal", "requestId", "digest", "at"]) {
      const [misfit] = bodyMisfits({ _tag: "approve", [key]: "x" })
      assert.strictEqual(misfit?.key, key)
    }
    assert.deepStrictEqual(bodyMisfits({ _tag: "deny", then: "stop", message: "no", note: "late" }), [])
  })
})

describe("a policy", () => {
  const issues = (policy: unknown) => {
    const checked = checkPolicy(policy)
    return Result.isFailure(checked) ? checked.failure.message : "taken"
  }

  it("is refused with an unknown key, and the nearest known one is suggested", () => {
    assert.include(
      issues({ mode: "all", rule: [] }),
      'there is no "rule" in the policy (did you mean "rules"?)'
    )
    assert.include(
      issues({ mode: "ask", rules: [{ tol: "*", action: "deny" }] }),
      '"rules.0" of the policy (did you mean "tool"?)'
    )
  })

  it("is refused with a message for a rule that denies nothing, where it has no effect", () => {
    const rules = (action: string) => issues({ mode: "ask", rules: [{ tool: "*", action, message: "no" }] })
    for (const action of ["ask", "approve"])
      assert.include(rules(action), `"rules.0.message" is read with the action "deny" alone`)
    assert.strictEqual(rules("deny"), "taken")
  })

  it("is refused with an invalid value, by the name of its field", () => {
    const modes = '"mode" of the policy takes "ask" or "all" or "none" or "until", and another text was given'
    assert.include(issues({ mode: "everything" }), modes)
    const actions = '"rules.0.action" of the policy takes "ask" or "approve" or "deny"'
    assert.include(issues({ mode: "ask", rules: [{ tool: "*", action: "allow" }] }), actions)
    assert.include(issues({ mode: "ask", rules: { pay: "deny" } }), '"rules" of the policy takes a list')
    assert.include(
      issues({ mode: "until", until: "tomorrow" }),
      '"until" of the policy takes a finite number'
    )
    assert.include(issues({}), '"mode" of the policy is missing: it takes "ask"')
    assert.include(issues("ask"), 'has to be a plain object, such as { mode: "ask" }')
    for (const none of [null, "all", ["all"], new Map([["mode", "ask"]])])
      assert.include(issues(none), "plain object")
  })

  it("is read once", () => {
    let looks = 0
    const looked = <A>(value: A): A => {
      looks += 1
      return value
    }
    const policy = {
      mode: "all",
      get rules() {
        return looked([{ tool: "*", action: "deny" }])
      }
    }
    assert.deepStrictEqual<unknown>(
      checkPolicy(policy),
      Result.succeed({ mode: "all", rules: [{ tool: "*", action: "deny" }] })
    )
    assert.strictEqual(looks, 1)
  })

  it("is refused with a time in a mode other than `until`", () => {
    assert.include(issues({ mode: "all", until: 1 }), '"until"')
    assert.strictEqual(issues({ mode: "until", until: 1 }), "taken")
  })
})

describe("limits", () => {
  it("are refused with an unknown key", () => {
    const checked = checkLimits({ maxTurn: 3 })
    assert.isTrue(Result.isFailure(checked))
    if (Result.isFailure(checked)) {
      assert.deepInclude(checked.failure.misfits?.[0], {
        key: "maxTurn",
        nearest: "maxTurns",
        place: "the limits"
      })
    }
    assert.isTrue(Result.isFailure(checkLimits(new Map([["maxTurns", 3]]))))
    assert.isTrue(Result.isSuccess(checkLimits({ maxTurns: 3 })))
  })

  it("are refused with a value that is no limit, by the name of the limit", () => {
    for (const [limits, problem] of [
      [
        { maxTurns: "3" },
        '"maxTurns" of the limits takes a whole number of 0 or more, and a string was given'
      ],
      [{ maxTurns: 1.5 }, "and another number was given"],
      [{ maxTokens: Number.NaN }, "and NaN was given"],
      [{ maxCostUsd: -1 }, '"maxCostUsd" of the limits takes a number of 0 or more'],
      [{ warnAt: 80 }, '"warnAt" of the limits takes a number from 0 to 1'],
      [{ wrapUp: "yes" }, '"wrapUp" of the limits takes true or false, and a string was given'],
      [{ maxTurns: null }, "and null was given"]
    ] as const) {
      const checked = checkLimits(limits)
      assert.include(Result.isFailure(checked) ? checked.failure.message : "taken", problem)
    }
  })
})

describe("options", () => {
  it("are refused unless they are an object or absent", () => {
    for (const none of [null, "x", 1, [], () => 1]) {
      assert.strictEqual(optionMisfits(none, keysOf(["a"]), "the options").length, 1)
    }
    assert.deepStrictEqual(optionMisfits(undefined, keysOf(["a"]), "the options"), [])
  })

  it("are refused with two letters exchanged, and the meant key is suggested", () => {
    const [misfit] = misfits({ modle: 1 }, keysOf(["model", "mode"]), "it")
    assert.strictEqual(misfit?.nearest, "model")
  })

  it("are refused with an unknown key whose value is undefined", () => {
    assert.strictEqual(misfits({ b: undefined }, keysOf(["a"]), "it").length, 1)
  })

  it("list the known keys when no key is similar", () => {
    const [misfit] = misfits({ color: 1 }, keysOf(["limits", "policy", "~own"]), "it")
    assert.strictEqual(misfit?.problem, 'there is no "color" in it (there are limits, policy)')
    assert.isUndefined(misfit?.nearest)
  })

  it("show control characters of a key as visible escapes, on one line", () => {
    const [misfit] = misfits({ "a\n\u001b[2J": 1 }, keysOf(["limits"]), "it")
    assert.include(misfit?.problem, 'there is no "a\\n\\u{1b}[2J" in it')
  })

  it("show the first 64 characters of a long key", () => {
    const [misfit] = misfits({ ["k".repeat(10_000)]: 1 }, keysOf(["a"]), "it")
    assert.strictEqual(misfit?.key?.length, 64)
  })

  it("accept exact words and booleans only", () => {
    const shape = { keys: { onExpiry: oneOf("deny", "stay"), gated: either(flag, oneOf("maybe")) } }
    assert.deepStrictEqual(misfits({ onExpiry: "stay", gated: "maybe" }, shape, "it"), [])
    const [word, value] = misfits({ onExpiry: "Stay", gated: "no" }, shape, "it")
    assert.strictEqual(word?.problem, '"onExpiry" of it takes "deny" or "stay", and another text was given')
    assert.include(value?.problem, "true or false")
  })
})
