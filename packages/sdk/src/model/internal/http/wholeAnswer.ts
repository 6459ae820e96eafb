/** Reads an answer that came in one piece, as the last event of a stream would be read. */
import * as Result from "effect/Result"
import type { ModelError } from "../../ModelError.ts"
import { makeCollector, type ModelPart, type ModelResponse } from "../../ModelPart.ts"
import { changed } from "../modelError.ts"
import type { AnswerDecoder } from "../protocol.ts"

/** The answer that `read` tells a decoder of; `none` is the error of what is no answer. */
export const wholeAnswer = (
  decoder: Pick<AnswerDecoder, "end" | "usage">,
  read: (emit: (part: ModelPart) => void) => ModelError | undefined,
  none: () => ModelError
): Result.Result<ModelResponse, ModelError> => {
  const collector = makeCollector()
  const add = (part: ModelPart) => collector.add(part)
  const error = read(add) ?? decoder.end(add)
  const answer = error === undefined ? collector.response() : undefined
  return answer === undefined
    ? Result.fail(changed(error ?? none(), { usage: decoder.usage() }))
    : Result.succeed(answer)
}
