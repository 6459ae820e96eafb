import { assert, describe, it } from "@effect/vitest"
import * as fc from "fast-check"
import type { RunUpdate } from "../../src/agent/RunUpdate.ts"
import type { RunId, ToolCallId } from "../../src/domain/Id.ts"
import type { ModelPart } from "../../src/model/ModelPart.ts"
import { Backlog, mostCharacters, mostEvents } from "../../src/promise/internal/Backlog.ts"

const runId = "r" as RunId
const whose = { runId, agentRunId: runId, agentPath: ["a"] }
const callId = (id: string) => id as ToolCallId

const output = (chunk: string, id = "c"): RunUpdate => ({
  ...whose,
  _tag: "output",
  callId: callId(id),
  chunk
})
const progress = (message: string, id = "c"): RunUpdate => ({
  ...whose,
  _tag: "progress",
  callId: callId(id),
  message
})
const delta = (part: ModelPart): RunUpdate => ({ ...whose, _tag: "delta", turn: 1, part })
const text = (delta_: string): RunUpdate => delta({ _tag: "text-delta", delta: delta_ })
const reasoning = (delta_: string): RunUpdate => delta({ _tag: "reasoning-delta", delta: delta_ })
const event = (revision: number, said = ""): RunUpdate => ({
  _tag: "event",
  runId,
  revision,
  event: { _tag: "message.queued", at: 1, content: [{ _tag: "text", text: said }] }
})

const filled = (...updates: ReadonlyArray<RunUpdate>): Backlog => {
  const backlog = new Backlog()
  for (const update of updates) backlog.push(update)
  return backlog
}

/** The pieces that a reader gets, in short. */
const brief = (backlog: Backlog): ReadonlyArray<string> => {
  return backlog.take().pieces.map((update) => {
    const omitted = "omitted" in update && update.omitted !== undefined ? ` after ${update.omitted}` : ""
    switch (update._tag) {
      case "event":
        return `event ${update.revision}`
      case "output":
        return `${update.callId} out ${update.chunk}${omitted}`
      case "progress":
        return `${update.callId} at ${update.message}${omitted}`
      case "delta":
        return `${update.part._tag} ${"delta" in update.part ? update.part.delta : ""}${omitted}`
      default:
        return update._tag
    }
  })
}

describe("the backlog of a reader", () => {
  it("joins output of one stream, and keeps the order of two", () => {
    const backlog = new Backlog()
    const pieces = [
      ["stdout", "a"],
      ["stdout", "b"],
      ["stderr", "c"],
      ["stdout", "d"]
    ] as const
    for (const [stream, chunk] of pieces) backlog.push({ ...output(chunk), stream } as never)
    assert.deepStrictEqual(
      backlog
        .take()
        .pieces.map((piece) => (piece._tag === "output" ? [piece.stream, piece.chunk] : piece._tag)),
      [
        ["stdout", "ab"],
        ["stderr", "c"],
        ["stdout", "d"]
      ]
    )
  })

  it("merges pieces of one text and of one call's output up to the next event", () => {
    const backlog = filled(
      text("a"),
      text("b"),
      reasoning("c"),
      text("d"),
      output("1", "x"),
      output("2", "y"),
      output("3", "x"),
      event(1),
      output("4", "x"),
      text("e")
    )
    assert.deepStrictEqual(brief(backlog), [
      "text-delta ab",
      "reasoning-delta c",
      "text-delta d",
      "x out 13",
      "y out 2",
      "event 1",
      "x out 4",
      "text-delta e"
    ])
    assert.isTrue(backlog.isEmpty)
  })

  it("keeps the latest progress message of a call, and counts the omitted characters", () => {
    assert.deepStrictEqual(
      brief(filled(progress("1 %"), progress("2 %"), progress("done"), progress("x", "d"))),
      ["c at done after 6", "d at x"]
    )
  })

  it("drops the oldest text beyond its bound, and counts the omitted characters", () => {
    const line = "x".repeat(1000)
    const backlog = new Backlog()
    backlog.push(output("first", "early"))
    for (let index = 0; index < 1000; index += 1) backlog.push(output(line))
    backlog.push(output("!"))
    const { pieces } = backlog.take()
    assert.strictEqual(pieces.length, 1)
    const [kept] = pieces
    if (kept?._tag !== "output") return assert.fail()
    assert.isAtMost(kept.chunk.length, mostCharacters)
    assert.isAbove(kept.chunk.length, mostCharacters - 10_000)
    assert.isTrue(kept.chunk.endsWith("x!"))
    assert.strictEqual(kept.chunk.length + (kept.omitted ?? 0), "first".length + 1_000_000 + 1)
  })

  it("keeps the end of a piece beyond its bound", () => {
    const [kept] = filled(output(`${"x".repeat(5 * mostCharacters)}end`)).take().pieces
    if (kept?._tag !== "output") return assert.fail()
    assert.isTrue(kept.chunk.endsWith("xend"))
    assert.isAtMost(kept.chunk.length, mostCharacters)
    assert.strictEqual(kept.chunk.length + (kept.omitted ?? 0), 5 * mostCharacters + 3)
  })

  it("keeps every event beside a text beyond its bound", () => {
    const large = "x".repeat(mostCharacters)
    assert.deepStrictEqual(
      brief(filled(event(1), output(large), event(2), output(large, "d"), event(3))).map((told) =>
        told.slice(0, 7)
      ),
      ["event 1", "event 2", "d out x", "event 3"]
    )
  })

  it("keeps the latest event when events are too many or too large", () => {
    const many = Array.from({ length: mostEvents + 1 }, (_, index) => event(index + 1))
    const large = [event(1), event(2, "x".repeat(mostCharacters))]
    for (const events of [many, large]) {
      const backlog = filled(output("lost"), ...events, output("new"), event(1000), output("more"))
      const { revision } = events.at(-1) as { readonly revision: number }
      const kept = events === many ? [`event ${revision}`, "c out new after 4", "event 1000"] : ["event 1000"]
      assert.deepStrictEqual(brief(backlog), [...kept, events === many ? "c out more" : "c out more after 7"])
      assert.isTrue(backlog.isEmpty)
    }
  })

  it("holds a bounded number of characters, and counts every omitted one", () => {
    const piece = fc.oneof(
      fc.integer({ min: 0, max: 60_000 }).map((length) => text("t".repeat(length))),
      fc.integer({ min: 0, max: 60_000 }).map((length) => reasoning("r".repeat(length))),
      fc
        .tuple(fc.integer({ min: 0, max: 600_000 }), fc.constantFrom("a", "b", "c"))
        .map(([length, id]) => output("o".repeat(length), id)),
      fc.constant(event(1))
    )
    fc.assert(
      fc.property(fc.array(piece, { maxLength: 60 }), (updates) => {
        const backlog = filled(...updates)
        let given = 0
        for (const update of updates) given += lengthOf(update)
        const taken = backlog.take().pieces as ReadonlyArray<RunUpdate>
        let held = 0
        let omitted = 0
        for (const update of taken) {
          held += lengthOf(update)
          if ("omitted" in update) omitted += update.omitted ?? 0
        }
        backlog.push(output("z"))
        const [last] = backlog.take().pieces
        const rest = last?._tag === "output" ? (last.omitted ?? 0) : 0
        assert.isAtMost(held, mostCharacters)
        assert.strictEqual(held + omitted + rest, given)
        const count = (list: ReadonlyArray<RunUpdate>) => list.filter(({ _tag }) => _tag === "event").length
        assert.strictEqual(count(taken), count(updates))
      }),
      { numRuns: 200 }
    )
  })
})

const lengthOf = (update: RunUpdate): number => {
  if (update._tag === "output") return update.chunk.length
  return update._tag === "delta" && "delta" in update.part ? update.part.delta.length : 0
}
