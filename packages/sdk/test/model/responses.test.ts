import { responses } from "../../src/model/internal/responses.ts"
import { decoderSuite } from "./DecoderSuite.ts"

decoderSuite("response", {
  protocol: responses,
  profile: { name: "test", protocol: "responses", baseUrl: "https://models.example/v1", model: "test" },
  errors: { "openai-quota-error": "QuotaExhausted", "json-background-queued": "InvalidRequest" },
  longText: {
    begin: [{ type: "response.output_item.added", output_index: 0, item: { type: "message" } }],
    delta: { type: "response.output_text.delta", output_index: 0, content_index: 0, delta: " word" },
    piece: (index) => ({ type: "response.output_item.added", output_index: index, item: { type: "message" } })
  },
  joined: (events) => events.at(-1).response
})
