import { once } from "node:events"
import { connect } from "node:net"
import { assert, describe, it } from "@effect/vitest"
import { connectFermata } from "@fermata/node/http"
import type { RuntimeEventEnvelope } from "@fermata/sdk/control"
import { served } from "./serving.ts"

type Envelope = RuntimeEventEnvelope.RuntimeEventEnvelope

const deltas = 40_000
const chunkSize = 20
const text = Array.from({ length: deltas }, (_, index) => String(index).padStart(chunkSize, ".")).join("")

describe("a client that does not read its events", () => {
  it("delays no task, and then receives every durable event and the whole text, merged", async () => {
    await using at = await served({}, { answers: () => ({ text, chunkSize }) })
    const socket = connect(at.port, "127.0.0.1")
    await once(socket, "connect")
    socket.write(
      `GET /v1/events HTTP/1.1\r\nhost: 127.0.0.1:${at.port}\r\nauthorization: Bearer ${at.server.token}\r\n\r\n`
    )
    await once(socket, "readable")
    socket.read(1)

    await using client = await connectFermata(at.server)
    await client.submit({ _tag: "SubmitPrompt", prompt: "Write much." })
    let last = 0
    for await (const { event, seq } of client.events({ from: 1 })) {
      last = seq
      if (event._tag === "session.saved") break
    }

    // The reader wakes up.
    socket.setEncoding("utf8")
    let rest = ""
    let place = 0
    let joined = ""
    let count = 0
    let parts = 0
    const tags: Array<string> = []
    reading: for await (const chunk of socket as AsyncIterable<string>) {
      const lines = (rest + chunk).split("\n")
      rest = lines.pop() ?? ""
      for (const line of lines) {
        if (!line.startsWith("data: ")) continue
        const envelope = JSON.parse(line.slice(6)) as Envelope
        const { event, merged = 1, seq } = envelope
        assert.strictEqual(seq - merged, place, "an event is missing")
        place = seq
        count += 1
        if (event._tag === "model.textDelta") {
          parts += 1
          joined = joined.slice(0, event.offset) + event.delta
        } else tags.push(event._tag)
        if (event._tag === "model.messageFinal") assert.strictEqual(event.text, text)
        if (seq === last) break reading
      }
    }
    assert.strictEqual(joined, text)
    assert.isBelow(parts, deltas, "the server kept all parts for the client")
    assert.include(tags, "task.completed")
    assert.strictEqual(count, parts + tags.length)
    socket.destroy()
  })
})
