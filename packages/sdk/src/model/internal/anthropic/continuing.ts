/**
 * A client that goes on with an answer whose provider paused: it sends back what was said so far, and what comes then is the rest of
 * the same answer.
 *
 * Anthropic pauses in the middle of long work of its own tools (`pause_turn`), after about ten calls of them; see
 * https://platform.claude.com/docs/en/build-with-claude/handling-stop-reasons#pause-turn
 */
import * as Arr from "effect/Array"
import * as Effect from "effect/Effect"
import * as Stream from "effect/Stream"
import type { AssistantMessage } from "../../../domain/Message.ts"
import type { AnsweredPart } from "../../../domain/RunEvent.ts"
import type { ModelClient } from "../../ModelClient.ts"
import type { ModelError } from "../../ModelError.ts"
import { makeCollector, type ModelPart, type ModelResponse } from "../../ModelPart.ts"
import type { ModelRequest } from "../../ModelRequest.ts"
import { withSpent, failedAfterSpending, type Spent } from "../cost.ts"
import { invalid } from "../modelError.ts"

type Client = ModelClient["Service"]

/** Each pause is paid anew, with all that was said before. */
const mostPauses = 10

/** The client, which goes on where its provider pauses. */
export const continuing = (client: Client): Client => ({
  ...client,
  stream: (request) => streamFrom(client, request, 0),
  complete: (request) => completeFrom(client, request, 0, [])
})

const streamFrom = (
  client: Client,
  request: ModelRequest,
  pauses: number,
  spent?: Spent
): Stream.Stream<ModelPart, ModelError> =>
  Stream.suspend(() => {
    const collector = makeCollector()
    let paused: ModelResponse | undefined
    const parts = Stream.mapArray(
      client.stream(request),
      Arr.map((part): ModelPart => {
        collector.add(part)
        if (part._tag !== "finish") return part
        const end = withSpent(spent, part)
        if (part.paused === undefined) return end
        const { content } = collector.response()!
        const { _tag: _, ...ending } = end
        paused = { content, ...ending }
        // Nobody sees the pause. What is said after it is said in pieces of its own, as the provider says it.
        return { _tag: "text-end" }
      })
    )
    const rest = Stream.suspend(() =>
      paused === undefined
        ? Stream.empty
        : pauses === mostPauses
          ? Stream.fail(failedAfterSpending(paused.usage, tooManyPauses()))
          : streamFrom(client, goingOn(request, paused), pauses + 1, paused.usage)
    )
    return Stream.concat(
      Stream.mapError(parts, (error) => failedAfterSpending(spent, error)),
      rest
    )
  })

const completeFrom = (
  client: Client,
  request: ModelRequest,
  pauses: number,
  said: ReadonlyArray<AnsweredPart>,
  spent?: Spent
): Effect.Effect<ModelResponse, ModelError> =>
  Effect.matchEffect(client.complete(request), {
    onFailure: (error) => Effect.fail(failedAfterSpending(spent, error)),
    onSuccess: (answered) => {
      const response = withSpent(spent, answered)
      const content = [...said, ...response.content]
      if (response.paused === undefined) return Effect.succeed({ ...response, content })
      return pauses === mostPauses
        ? Effect.fail(failedAfterSpending(response.usage, tooManyPauses()))
        : completeFrom(client, goingOn(request, response), pauses + 1, content, response.usage)
    }
  })

/** The same request, at the end of which stands what was answered. */
const goingOn = (request: ModelRequest, { content, paused }: ModelResponse): ModelRequest => {
  const last = request.messages.at(-1)
  const said: AssistantMessage = {
    role: "assistant",
    sequence: (last?.sequence ?? -1) + 1,
    at: last?.at ?? 0,
    // There are no calls of ours in it: those end an answer.
    content: content.filter((part) => part._tag !== "toolCall")
  }
  return {
    ...request,
    messages: [...request.messages, said],
    settings: { ...request.settings, extra: { ...paused, ...request.settings?.extra } }
  }
}

const tooManyPauses = (): ModelError =>
  invalid(
    `The provider paused ${mostPauses + 1} times in the middle of work of its own: let it do less at once, or bound what its tools may do.`,
    false
  )
