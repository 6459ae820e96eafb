import { assert, describe, it } from "@effect/vitest"
import { isBlank, isReserved } from "../../../src/domain/internal/names.ts"

describe("a reserved name", () => {
  for (const [how, names] of [
    ["in any case, and with spaces", ["expiry", "EXPIRY", " Policy\t", "pol icy", "policy\u00a0"]],
    [
      "with characters without width",
      ["pol\u200bicy", "\ufeffexpiry", "expi\u00adry", "poli\u2060cy", "expiry\u0000"]
    ],
    ["with marks", ["e\u0301xpiry", "polıcy\u0307"]],
    ["in compatibility forms", ["ｐｏｌｉｃｙ", "𝐞𝐱𝐩𝐢𝐫𝐲", "ⓟⓞⓛⓘⓒⓨ"]],
    [
      "in Cyrillic, Greek, Armenian and small capitals",
      ["роlісу", "ехріrу", "ρolicy", "pօlicy", "ᴘᴏʟɪᴄʏ", "εχρίry"]
    ],
    ["with digits and a capital I", ["p0licy", "po1icy", "PoIicy", "exp1ry"]]
  ] as const) {
    it(`is recognized ${how}`, () => {
      for (const name of names) assert.isTrue(isReserved(name), JSON.stringify(name))
    })
  }

  it("is neither a longer word nor a value that is not text", () => {
    const others = [
      "Polly",
      "policy-bot",
      "expiry@acme.example",
      "policeman",
      "expire",
      "Поліна",
      "",
      1,
      null
    ]
    for (const name of others) assert.isFalse(isReserved(name), String(name))
  })
})

describe("a blank name", () => {
  it("has no visible character", () => {
    for (const name of ["", " ", "\t\n", "\u200b", "\u3164", "\u2800", "\u0000", "\u202e", "\u0301"])
      assert.isTrue(isBlank(name), JSON.stringify(name))
    for (const name of ["a", " ana ", "안나", "🙂", "-"]) assert.isFalse(isBlank(name), name)
  })
})
