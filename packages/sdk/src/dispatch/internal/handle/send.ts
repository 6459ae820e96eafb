/**
 * Sends a message through a handle, with the meaning that `whenHeld` gives it while requests are open.
 */
import * as Effect from "effect/Effect"
import { requireOptions } from "../../../agent/internal/soundOptions.ts"
import type { DecisionInput } from "../../../domain/Decision.ts"
import type { RunId } from "../../../domain/Id.ts"
import type { Interruption } from "../../../domain/Interruption.ts"
import { textOf } from "../../../domain/Message.ts"
import { OptionsInvalid } from "../../../domain/OptionsInvalid.ts"
import { attribute, type Principal } from "../../../domain/Principal.ts"
import { decodePrompt } from "../../../run/internal/decodePrompt.ts"
import { checkCallerOptions } from "../../../run/internal/staging.ts"
import type { CallerOptions } from "../../../run/internal/startOptions.ts"
import type { Prompt } from "../../../run/Mail.ts"
import type { AgentHandle, SendError, HandleSendOptions } from "../../AgentHandle.ts"
import { AnswerNotText, NothingToAnswer, SeveralQuestions } from "../../DispatchError.ts"
import { sendShape } from "../shapes.ts"

/** A handle that can receive messages. */
interface Receiver<Output, E> extends AgentHandle<Output, E> {
  /** Reads the open requests, those of a stored run from the store, because the handle may not know all of them yet. */
  readonly openRequests: Effect.Effect<ReadonlyArray<Interruption>, E>
  /** Queues a message for the next turn. */
  readonly deliver: (prompt: Prompt, messageId: string | undefined) => Effect.Effect<void, SendError | E>
  /** Forks the run from the start of its open turn, and sends the prompt to the fork. */
  readonly fork: (
    prompt: Prompt,
    given: CallerOptions
  ) => Effect.Effect<AgentHandle<Output, E>, SendError | E>
}

/** Sends a message. Returns the handle of the run that receives it. */
export const send = Effect.fnUntraced(function* <Output, E>(
  live: Receiver<Output, E>,
  prompt: Prompt,
  given: HandleSendOptions
): Effect.fn.Return<AgentHandle<Output, E>, SendError | E> {
  const options = yield* checkCallerOptions(yield* requireOptions("send", given, sendShape))
  const { by = "user", limits, messageId, policy, whenHeld = "queue" } = options
  yield* Effect.fromResult(attribute(by))
  const parts = yield* decodePrompt(prompt)
  const open = whenHeld === "queue" ? [] : yield* live.openRequests
  const { runId } = live
  const isForked = whenHeld === "fork" && open.length > 0
  if (!isForked) yield* requireUnchanged(options)
  if (isForked || whenHeld === "answer") yield* requireWithoutId(options)
  if (whenHeld === "answer") {
    const questions = open.filter(({ _tag }) => _tag === "question")
    const [question] = questions
    if (question === undefined) return yield* new NothingToAnswer({ runId })
    if (questions.length > 1) {
      return yield* new SeveralQuestions({ runId, requestIds: questions.map(({ requestId }) => requestId) })
    }
    if (parts.some(({ _tag }) => _tag !== "text")) return yield* new AnswerNotText({ runId })
    yield* live.decide({ _tag: "answer", requestId: question.requestId, by, answer: textOf(parts) })
    return live
  }
  if (isForked) {
    const given = { ...(limits === undefined ? {} : { limits }), ...(policy === undefined ? {} : { policy }) }
    return yield* live.fork(parts, given)
  }
  // The message is queued before the denials, so that it is there when they settle the last call.
  yield* live.deliver(parts, messageId)
  if (whenHeld !== "supersede") return live
  for (const request of open) {
    const denial = denialOf(request, by, runId)
    if (denial === undefined) continue
    // A request that was decided or superseded meanwhile needs no denial.
    yield* Effect.catch(live.decide(denial), (error) =>
      typeof error === "object" && error !== null && "_tag" in error && isLate(error._tag)
        ? Effect.void
        : Effect.fail(error)
    )
  }
  return live
})

/** Refuses limits and a policy for a message that does not fork the run. */
const requireUnchanged = (options: HandleSendOptions): Effect.Effect<void, OptionsInvalid> => {
  const place = "the options of send"
  const misfits = (["policy", "limits"] as const)
    .filter((key) => options[key] !== undefined)
    .map((key) => ({
      place,
      key,
      problem: `"${key}" in ${place} is for a fork at an open request, and this message is for the run itself, which keeps its own`
    }))
  return misfits.length === 0 ? Effect.void : Effect.fail(new OptionsInvalid({ of: "send", misfits }))
}

/** Refuses a `messageId` for a message that is not queued, and would be sent again by a repeated call. */
const requireWithoutId = ({
  messageId,
  whenHeld
}: HandleSendOptions): Effect.Effect<void, OptionsInvalid> => {
  if (messageId === undefined) return Effect.void
  const place = "the options of send"
  const made = whenHeld === "fork" ? "starts a run of its own" : "is recorded as the answer to a question"
  const problem = `"messageId" in ${place} is for a queued message, and this one ${made}`
  return Effect.fail(new OptionsInvalid({ of: "send", misfits: [{ place, key: "messageId", problem }] }))
}

const isLate = (tag: unknown): boolean =>
  tag === "AlreadyDecided" || tag === "RequestSuperseded" || tag === "RequestNotFound"

/**
 * The decision that abandons a request: a denial, or the failure of a call that was started. `undefined` for budgets and logins, without
 * which the model cannot receive the message.
 */
const denialOf = (
  { _tag, requestId, runId }: Interruption,
  by: string | Principal,
  supersedes: RunId
): DecisionInput | undefined => {
  // The message follows in the receiving run only, and not in the runs of its sub-agents.
  const follows = runId === supersedes ? "; it follows" : ""
  const said = `The user has said something else instead${follows}.`
  const given = { requestId, by, supersedes }
  switch (_tag) {
    case "approval":
    case "question":
      return { _tag: "deny", ...given, message: `${said} This was not done.` }
    case "inDoubt":
      return { _tag: "fail", ...given, message: `${said} Whether this took effect is not known.` }
    case "timer":
      return { _tag: "fail", ...given, message: `${said} The wait has ended before its time.` }
    case "external":
      return {
        _tag: "fail",
        ...given,
        message: `${said} This was started, and its result is not waited for.`
      }
    case "limit":
    case "login":
      return undefined
  }
}
