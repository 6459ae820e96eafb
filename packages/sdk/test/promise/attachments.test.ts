import { assert, describe, it } from "@effect/vitest"
import { messages } from "../../src/domain/RunState.ts"
import { agent } from "../../src/promise/define.ts"
import * as Fermata from "../../src/promise/Fermata.ts"
import { isAttachmentNotFound, isFermataClosed, isFileUnreadable } from "../../src/promise/guards.ts"
import { joined } from "../../src/store/internal/blobs.ts"
import { layerMemory } from "../../src/store/RunStore.ts"
import * as ScriptedModel from "../../src/testing/ScriptedModel.ts"
import { filesIn, imageOf } from "../durable/attachmentsSuite.ts"
import { rejection } from "../helpers/rejection.ts"

const make = (script: ReadonlyArray<string>) =>
  Fermata.make({ agents: [agent("eye")], model: ScriptedModel.make(script).client, store: layerMemory })

const text = "größer\n".repeat(500)

describe("the attachments of a Fermata", () => {
  it("are attached as a file, and read back as bytes, as a text and as a stream", async () => {
    await using fermata = await make(["Read."])
    const part = await fermata.attachFile(new File([text], "notes.txt", { type: "text/plain" }))
    const { runId, state } = await fermata.runPrompt("eye", [part])
    const [shown] = filesIn(messages(state))
    assert.strictEqual(shown?.source._tag, "stored")
    const found = await fermata.readAttachment(runId, shown!)
    assert.deepInclude(found, { mediaType: "text/plain", name: "notes.txt", size: text.length + 1000 })
    assert.strictEqual(await found.text(), text)
    assert.strictEqual((await found.bytes()).length, found.size)
    assert.strictEqual(await new Response(found.stream({ from: 9 })).text(), text.slice(7))
  })

  it("are moved to another Fermata with their run, through a file of lines", async () => {
    await using here = await make(["Read."])
    await using there = await make([])
    const part = await here.attachFile(new Blob([text]))
    const { runId } = await here.runPrompt("eye", [part])
    const bytes: Array<Uint8Array> = []
    for await (const line of here.exportRunLines(runId)) bytes.push(new TextEncoder().encode(line))
    const whole = joined(bytes)
    const pieces = async function* () {
      for (let at = 0; at < whole.length; at += 999) yield whole.subarray(at, at + 999)
    }
    assert.strictEqual(await there.importRunLines(pieces()), runId)
    assert.strictEqual(await (await there.readAttachment(runId, part)).text(), text)
    const broken = async function* () {
      yield whole.subarray(0, 999)
      throw new Error("the disk is gone")
    }
    assert.include((await rejection(there.importRunLines(broken()))).message, "the disk is gone")
  })

  it("are refused with errors that the guards know", async () => {
    const fermata = await make(["Read."])
    const { runId } = await fermata.runPrompt("eye", "Go")
    assert.isTrue(isAttachmentNotFound(await rejection(fermata.readAttachment(runId, "0".repeat(64)))))
    const broken = new ReadableStream<Uint8Array>({
      start: (controller) => controller.error(new Error("cut"))
    })
    assert.isTrue(isFileUnreadable(await rejection(fermata.attachFile(broken))))
    const { promise: asked, resolve } = Promise.withResolvers<void>()
    const endless = new ReadableStream<Uint8Array>({
      pull: (controller) => {
        controller.enqueue(imageOf(5000))
        resolve()
        return new Promise(() => {})
      }
    })
    const attaching = rejection(fermata.attachFile(endless))
    await asked
    await fermata.close()
    assert.isTrue(isFermataClosed(await attaching))
  })
})
