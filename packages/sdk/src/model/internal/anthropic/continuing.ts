/**
 * Continues a response whose provider paused: sends the content so far back, and appends the content that follows to the same response.
 *
 * Anthropic pauses after about ten calls of its own tools in one response (`pause_turn`); see
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

/** Each continued request pays for the whole content so far again, so their number is limited. */
const mostPauses = 10

/** Returns a client that continues paused responses. */
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
        // Consumers do not see the pause. The text after it is a part of its own, as in the provider's response.
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

/** The same request, with the content so far as its last message. */
const goingOn = (request: ModelRequest, { content, paused }: ModelResponse): ModelRequest => {
  const last = request.messages.at(-1)
  const said: AssistantMessage = {
    role: "assistant",
    sequence: (last?.sequence ?? -1) + 1,
    at: last?.at ?? 0,
    // A paused response has no calls of Fermata's tools: such a call would have ended it.
    content: content.filter((part) => part._tag !== "toolCall")
  }
  const { transientMessages = 0 } = request
  return {
    ...request,
    messages: [...request.messages, said],
    // The transient messages are before the content so far, which is not repeated either.
    ...(transientMessages === 0 ? {} : { transientMessages: transientMessages + 1 }),
    settings: { ...request.settings, extra: { ...paused, ...request.settings?.extra } }
  }
}

const tooManyPauses = (): ModelError =>
  invalid(
    `The provider paused ${mostPauses + 1} times while it ran its own tools: ask for less at once, or limit the use of those tools.`,
    false
  )
