/**
 * @title Attachments: a picture is stored once, and a long result stays readable
 *
 * A person sends a picture of 5 MB. The journal has its SHA-256, and later prompts do not send it again. A tool returns a long log: the
 * model gets its head and its tail, and reads the rest by its id. The model is scripted.
 */
import assert from "node:assert/strict"
import { statSync } from "node:fs"
import { agent, createFermata, Message, recallTool, tool } from "@fermata/node"
import { ScriptedModel } from "@fermata/node/testing"

const picture = new File([new Uint8Array(5_000_000).fill(137)], "board.png", { type: "image/png" })
const log = Array.from(
  { length: 20_000 },
  (_, line) => `${line}: the pump is ${line === 9000 ? "on fire" : "fine"}`
)

export const main = async () => {
  const readLog = tool("read_log", {
    description: "Reads the log of the pump.",
    safety: "readOnly",
    maxResultLength: 2000,
    handler: () => log.join("\n")
  })
  const model = ScriptedModel.make([
    "It shows a pump.",
    { calls: [{ tool: "read_log" }] },
    // The mark in the cut result has the id of the whole text.
    ({ messages }) => {
      const id = /the id of the whole text is (\w+)/.exec(Message.textOf(messages.at(-1)!.content))?.[1]
      return { calls: [{ tool: "recall", arguments: { id: id!, from: 205_000 } }] }
    },
    "It was on fire."
  ])
  const inspector = agent("inspector", { tools: [readLog, recallTool()] })

  await using fermata = await createFermata({ agents: [inspector], model: model.client })
  const photo = await fermata.attachFile(picture)
  const first = await fermata.runPrompt("inspector", [Message.text("What is it?"), photo], {
    sessionId: "pump"
  })
  const second = await fermata.runPrompt("inspector", "Is it fine?", { sessionId: "pump" })
  assert.equal(second.status, "completed")

  // The picture was sent with its own prompt only.
  const pictures = model.requests.map(
    ({ messages }) => messages.flatMap(({ content }) => content.filter(({ _tag }) => _tag === "file")).length
  )
  assert.deepEqual(pictures, [1, 0, 0, 0])

  // The model read a piece in the middle of the log.
  const piece = Message.textOf(model.requests[3]!.messages.at(-1)!.content)
  assert.match(piece, /9000: the pump is on fire/)

  // The state has references; the store has each content once.
  assert(JSON.stringify(second.state).length < 50_000)
  assert(statSync("fermata.db").size < 7_000_000)

  // A person reads both: the picture, and the whole log.
  const messages = await fermata.messages("pump")
  const cut = messages.flatMap(({ content }) => content).find((part) => part._tag === "text" && part.whole)
  assert(cut?._tag === "text")
  assert.equal(await (await fermata.readAttachment(second.runId, cut)).text(), log.join("\n"))
  const { mediaType, name, size } = await fermata.readAttachment(first.runId, photo)
  console.log(`${name} is ${mediaType} of ${size} bytes`)

  // An archive has them, too.
  await using elsewhere = await createFermata({
    agents: [inspector],
    model: model.client,
    store: "elsewhere.db"
  })
  await elsewhere.importRun(await fermata.exportRun(second.runId))
  assert.equal((await elsewhere.readAttachment(second.runId, photo)).size, 5_000_000)
}

if (import.meta.main) await main()
