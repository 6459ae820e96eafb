import { messages } from "../../src/model/internal/anthropic/messages.ts"
import { decoderSuite } from "./DecoderSuite.ts"

/** The message equivalent to a stream's events. */
const joined = (events: ReadonlyArray<any>): unknown => {
  const message = structuredClone(events[0].message)
  for (const event of events) {
    const block = message.content[event.index]
    switch (event.type) {
      case "content_block_start":
        message.content.push(structuredClone(event.content_block))
        break
      case "content_block_delta":
        switch (event.delta.type) {
          case "text_delta":
            block.text += event.delta.text
            break
          case "thinking_delta":
            block.thinking += event.delta.thinking
            break
          case "signature_delta":
            block.signature = event.delta.signature
            break
          case "input_json_delta":
            block.json = (block.json ?? "") + event.delta.partial_json
        }
        break
      case "content_block_stop":
        if (block.json) block.input = JSON.parse(block.json)
        delete block.json
        break
      case "message_delta":
        Object.assign(message, event.delta)
        Object.assign(message.usage, event.usage)
    }
  }
  return message
}

decoderSuite("message", {
  protocol: messages,
  profile: { name: "test", protocol: "messages", baseUrl: "https://models.example/v1", model: "test" },
  errors: {},
  piece: (index) => ({ type: "content_block_start", index, content_block: { type: "text", text: "" } }),
  joined,
  foreign: { choices: [{ message: { content: "hi" } }] }
})
