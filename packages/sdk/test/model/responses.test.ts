import { responses } from "../../src/model/internal/openai/responses.ts"
import { decoderSuite } from "./DecoderSuite.ts"

decoderSuite("response", {
  protocol: responses,
  profile: { name: "test", protocol: "responses", baseUrl: "https://models.example/v1", model: "test" },
  errors: { "openai-quota-error": "QuotaExhausted", "json-background-queued": "InvalidRequest" },
  piece: (index) => ({ type: "response.output_item.added", output_index: index, item: { type: "message" } }),
  joined: (events) => events.at(-1).response,
  foreign: { choices: [{ message: { content: "hi" } }] }
})
