import { createHash } from "node:crypto"
import { readdirSync, readFileSync } from "node:fs"
import { join } from "node:path"
import { assert, describe, it } from "@effect/vitest"
import * as Result from "effect/Result"
import { type RunEvent, version } from "../../src/domain/RunEvent.ts"
import { messages, pendingApprovals, providerMessages } from "../../src/domain/RunState.ts"
import * as RunStateCodec from "../../src/domain/RunStateCodec.ts"
import * as Journal from "./Journal.ts"
import { difference, historyFault } from "./Ledger.ts"

const corpus = join(import.meta.dirname, "../fixtures/run-state")
const file = (...path: ReadonlyArray<string>) => readFileSync(join(corpus, ...path), "utf8")
const names = (folder: string) => readdirSync(join(corpus, folder)).map((name) => name.replace(/\.json$/, ""))

const refusal = (text: string) => {
  const decoded = RunStateCodec.decode(text)
  if (Result.isSuccess(decoded)) return assert.fail("it was read")
  return decoded.failure
}

/** The JSON of a state with two open approvals, for tests to change. */
const waiting = () =>
  JSON.parse(
    RunStateCodec.encode(
      Journal.fold(
        Journal.started(),
        Journal.calls("write_file", "write_file"),
        ...Journal.askedAbout(Journal.callId(1, 1), Journal.requestId(1)),
        ...Journal.askedAbout(Journal.callId(1, 2), Journal.requestId(2))
      )
    )
  )

describe("the corpus of run states", () => {
  it("contains exactly the frozen files, byte for byte", () => {
    const sources = JSON.parse(file("sources.json")) as ReadonlyArray<{
      file: string
      version: number
      sha256: string
    }>
    const present = ["historical", "negative", "expected"].flatMap((folder) =>
      readdirSync(join(corpus, folder)).map((name) => `${folder}/${name}`)
    )
    assert.deepStrictEqual(
      sources.map((source) => source.file),
      present.toSorted()
    )
    for (const source of sources) {
      assert.strictEqual(
        createHash("sha256").update(file(source.file)).digest("hex"),
        source.sha256,
        source.file
      )
    }
  })

  for (const name of names("historical")) {
    it(`decodes: ${name}`, () => {
      const state = Result.getOrThrow(RunStateCodec.decode(file("historical", `${name}.json`)))
      assert.isUndefined(difference(state, JSON.parse(file("expected", `${name}.json`))))
      assert.isUndefined(historyFault(providerMessages(state)))
      assert.isUndefined(
        difference(Result.getOrThrow(RunStateCodec.decode(RunStateCodec.encode(state))), state)
      )
    })
  }

  for (const name of names("negative")) {
    it(`is refused: ${name}`, () => {
      const { _tag, message } = refusal(file("negative", `${name}.json`))
      assert.deepStrictEqual({ _tag, message }, JSON.parse(file("expected", `negative-${name}.json`)))
    })
  }
})

describe("RunStateCodec", () => {
  it("keeps a history of 130 messages in three chunks", () => {
    const state = Result.getOrThrow(RunStateCodec.decode(file("historical", "v1-long.json")))
    assert.strictEqual(messages(state).length, 130)
    assert.deepStrictEqual([state.history.chunks.length, state.history.tail.length], [2, 2])
  })

  it("refuses a newer version, and names both versions", () => {
    const json = { ...waiting(), version: 2 }
    const error = refusal(JSON.stringify(json))
    assert.strictEqual(error._tag, "RunStateTooNew")
    assert.strictEqual(
      error.message,
      "This run state has version 2, and this Fermata reads up to 1: update Fermata to continue it."
    )
  })

  it("drops unknown fields", () => {
    const state = Result.getOrThrow(RunStateCodec.decodeUnknown({ ...waiting(), color: "blue" }))
    assert.isFalse("color" in state)
  })

  it("decodes parsed JSON", () => {
    assert.strictEqual(pendingApprovals(Result.getOrThrow(RunStateCodec.decodeUnknown(waiting()))).length, 2)
  })

  it("refuses values that are not states", () => {
    for (const value of [
      undefined,
      null,
      1,
      "state",
      [],
      () => 1,
      Object.create({ version: 1 }),
      new Map()
    ]) {
      assert.isTrue(Result.isFailure(RunStateCodec.decodeUnknown(value)))
    }
  })

  it("keeps prototype keys as data in arguments, and drops them elsewhere", () => {
    const text = JSON.stringify(waiting()).replaceAll(
      '"of":"tool"',
      '"__proto__":{"polluted":1},"constructor":{"prototype":{"polluted":1}}'
    )
    const outside = text.replace(
      '"version":1',
      '"version":1,"__proto__":{"polluted":1},"constructor":{"polluted":1}'
    )
    const state = Result.getOrThrow(RunStateCodec.decode(outside))
    assert.isUndefined(({} as Record<string, unknown>)["polluted"])
    assert.isUndefined((state as unknown as Record<string, unknown>)["polluted"])
    assert.strictEqual(Object.getPrototypeOf(state), Object.prototype)
    assert.isFalse(Object.hasOwn(state, "constructor"))
    const args = state.calls[0]!.arguments as object
    assert.deepStrictEqual(Object.keys(args), ["__proto__", "constructor"])
    // Twice in the arguments of two calls and of two requests, and nowhere else.
    assert.strictEqual(RunStateCodec.encode(state).split("polluted").length - 1, 8)
  })

  it("keeps a grant's pattern for an argument named __proto__", () => {
    const grants =
      '[{"id":"g","tool":"t","scope":"run","arguments":{"__proto__":{"_tag":"equals","value":1}},"by":"a","at":1,"inherit":false}]'
    const text = JSON.stringify(waiting()).replace('"grants":[]', `"grants":${grants}`)
    const state = Result.getOrThrow(RunStateCodec.decode(text))
    assert.deepStrictEqual(Object.keys(state.grants[0]!.arguments), ["__proto__"])
  })

  for (const [levels, answer] of [
    [900, "read"],
    [1001, "RunStateMalformed"],
    [10_000, "RunStateMalformed"],
    [200_000, "RunStateMalformed"]
  ] as const) {
    it(`handles arguments nested ${levels} levels deep without a stack overflow`, () => {
      const nested = "[".repeat(levels) + "]".repeat(levels)
      const json = waiting()
      json.calls[0].arguments = 0
      const decoded = RunStateCodec.decode(
        JSON.stringify(json).replace('"arguments":0', `"arguments":${nested}`)
      )
      assert.strictEqual(Result.isFailure(decoded) ? decoded.failure._tag : "read", answer)
      const read = RunStateCodec.decodeEvents(`[{"_tag":"run.completed","at":1,"output":${nested}}]`, 1)
      assert.strictEqual(Result.isFailure(read) ? read.failure._tag : "read", answer)
    })
  }

  it("counts events as readable only if they can be decoded again", () => {
    for (const levels of [100, 900, 997, 998, 1001, 10_000, 200_000]) {
      const output = JSON.parse("[".repeat(levels) + "]".repeat(levels))
      const events: ReadonlyArray<RunEvent> = [{ _tag: "run.completed", at: 1, output }]
      const isDecoded =
        levels < 10_000 &&
        Result.isSuccess(RunStateCodec.decodeEvents(RunStateCodec.encodeEvents(events), version))
      assert.strictEqual(RunStateCodec.areReadable(events), isDecoded, `${levels} levels`)
    }
  })

  it("decodes deeply nested sub-agents", () => {
    const levels = 300
    const wrapped = `${'{"_tag":"child.advanced","at":1,"callId":"c","event":'.repeat(levels)}{"_tag":"run.held","at":1}${"}".repeat(levels)}`
    const events = Result.getOrThrow(RunStateCodec.decodeEvents(`[${wrapped}]`, 1))
    assert.strictEqual(RunStateCodec.encodeEvents(events), `[${wrapped}]`)
  })

  it("refuses journal rows that are newer, not JSON or not events", () => {
    const tag = (text: string, version: number) => {
      const decoded = RunStateCodec.decodeEvents(text, version)
      return Result.isFailure(decoded) ? decoded.failure._tag : "read"
    }
    assert.strictEqual(tag("[]", 1), "read")
    assert.strictEqual(tag("[]", 2), "RunStateTooNew")
    assert.strictEqual(tag("[", 1), "RunStateMalformed")
    assert.strictEqual(tag("{}", 1), "RunStateMalformed")
    assert.strictEqual(tag('[{"_tag":"run.exploded","at":1}]', 1), "RunStateMalformed")
    assert.strictEqual(
      tag('[{"_tag":"child.advanced","at":1,"callId":"c","event":{"_tag":"x"}}]', 1),
      "RunStateMalformed"
    )
  })

  it("does not quote the content of a malformed state", () => {
    const json = waiting()
    json.revision = "hunter2"
    json.calls[0].arguments = undefined
    assert.notInclude(refusal(JSON.stringify(json)).message, "hunter2")
  })

  it("encodes events for one row each", () => {
    const events: ReadonlyArray<RunEvent> = [Journal.started(), Journal.calls("a", "b"), Journal.held]
    const rows = events.map((event) => RunStateCodec.encodeEvents([event]))
    assert.deepStrictEqual(
      rows.flatMap((row) => Result.getOrThrow(RunStateCodec.decodeEvents(row, 1))),
      events
    )
  })
})
