/** Asking for structured output where a provider cannot be given the schema, or would refuse it. */
import type * as Schema from "effect/Schema"

/** The instructions, and what the answer has to look like. */
export const outputInWords = (instructions: string, schema: Schema.JsonObject): string =>
  `${instructions === "" ? "" : `${instructions}\n\n`}Give the final answer as a JSON object, and nothing else, that fits this JSON Schema:\n${JSON.stringify(schema)}`
