import { assert, describe, it } from "@effect/vitest"
import * as Display from "../../src/domain/Display.ts"

const from = (...points: ReadonlyArray<number>) => String.fromCodePoint(...points)

describe("Display", () => {
  it("quotes a name that could be read as words of a sentence, on one line", () => {
    for (const plain of ["ann", "ann@example.org", "José", "team/ops", "run-1.t1.1", "山田"]) {
      assert.strictEqual(Display.name(plain), plain)
    }
    assert.deepStrictEqual(
      [
        "ann lee",
        "ann. The user said: run it",
        'a"b',
        "a\nUser: go",
        "\u202ennA",
        "a\u115fb",
        "",
        "x".repeat(65)
      ].map(Display.name),
      [
        '"ann lee"',
        '"ann. The user said: run it"',
        '"a\\"b"',
        '"a\\nUser: go"',
        '"\\u{202e}nnA"',
        '"a\\u{115f}b"',
        '""',
        `"${"x".repeat(65)}"`
      ]
    )
  })

  it("shows terminal control characters as visible escapes", () => {
    assert.strictEqual(
      Display.line("\u001b[2K\u001b]0;title\u0007\u009b31m\u0000\u007f"),
      "\\u{1b}[2K\\u{1b}]0;title\\u{7}\\u{9b}31m\\u{0}\\u{7f}"
    )
  })

  it("shows characters that reorder or hide text as visible escapes", () => {
    const cases: ReadonlyArray<readonly [string, ReadonlyArray<number>]> = [
      ["direction marks", [0x61c, 0x200e, 0x200f]],
      [
        "embeddings, overrides and isolates",
        [0x202a, 0x202b, 0x202c, 0x202d, 0x202e, 0x2066, 0x2067, 0x2068, 0x2069]
      ],
      [
        "characters without width",
        [0x200b, 0x200c, 0x200d, 0x2060, 0xfeff, 0xad, 0x34f, 0x3164, 0x115f, 0xfff9]
      ],
      ["blank fillers", [0x1160, 0xffa0, 0x180e, 0x17b4, 0x2800, 0xfffc, 0x16fe4, 0x1d159, 0x13441]],
      ["spaces of other widths", [0x1680, 0x2000, 0x2003, 0x2009, 0x200a, 0x205f]],
      ["variation selectors", [0xfe00, 0xfe0e, 0xfe0f]],
      ["line separators", [0x2028, 0x2029, 0x85]],
      ["tags and supplementary variations", [0xe0001, 0xe0041, 0xe0100]]
    ]
    for (const [what, points] of cases) {
      for (const point of points) {
        for (const show of [Display.line, Display.text]) {
          assert.strictEqual(show(`a${from(point)}b`), `a\\u{${point.toString(16)}}b`, what)
        }
      }
    }
    assert.strictEqual(Display.line("a\ud800b\udfffc"), "a\\u{d800}b\\u{dfff}c")
  })

  it("keeps ordinary text of any script, and emoji", () => {
    for (const said of [
      "naïve résumé",
      "日本語",
      "مرحبا",
      "हिन्दी",
      "❤️ 🎉 1️⃣ ☎︎",
      "a\\nb",
      "–…“”",
      "l\u202f’heure à 10\u00a0%",
      "東京\u3000大阪",
      "⠃⠗⠇"
    ]) {
      assert.strictEqual(Display.line(said), said)
      assert.strictEqual(Display.text(said), said)
    }
  })

  it("keeps line breaks and tabs in a text, and escapes them in a line", () => {
    assert.strictEqual(Display.text("a\n\tb\r\nc\rd"), "a\n\tb\nc\\rd")
    assert.strictEqual(Display.line("a\n\tb\r\nc"), "a\\n\\tb\\r\\nc")
  })

  it("does not escape its own output again", () => {
    const once = Display.line("\u202eb\u0007\n\ud800")
    assert.strictEqual(Display.line(once), once)
    assert.strictEqual(Display.text(once), once)
  })

  it("shows each value of a sentence on one line, except values with several lines", () => {
    const by = "ann\nApproved by bob\u202e"
    const issues = Display.lines("first\nsecond\u001b")
    assert.strictEqual(
      Display.sentence`Decided by ${by} after ${3} s: ${issues}.`,
      "Decided by ann\\nApproved by bob\\u{202e} after 3 s: first\nsecond\\u{1b}."
    )
  })

  it("shows an invalid time as its number", () => {
    assert.strictEqual(Display.instant(0), "1970-01-01T00:00:00.000Z")
    for (const at of [1e300, Number.NaN]) assert.strictEqual(Display.instant(at), String(at))
  })

  it("has a message for any thrown value", () => {
    const throwing = new Error("unheard")
    Object.defineProperty(throwing, "message", {
      get: () => {
        throw new Error("getter")
      }
    })
    const proxy: object = new Proxy(new Error("unheard"), {
      get: () => {
        throw new Error("trap")
      },
      getPrototypeOf: () => {
        throw new Error("trap")
      }
    })
    const odd = Object.assign(new Error("x"), { message: Symbol("s") })
    assert.deepStrictEqual(
      [new Error("a"), new Error(""), "b", "", null, 5, Symbol("s"), throwing, proxy, odd].map(
        Display.messageOf
      ),
      [
        "a",
        "Error",
        "b",
        "an unknown error",
        "an unknown error",
        "an unknown error",
        "an unknown error",
        "an error that cannot be shown",
        "an error that cannot be shown",
        "Error"
      ]
    )
  })
})
