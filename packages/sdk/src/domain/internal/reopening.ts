/**
 * The message that reopens a denied request. It tells the model, which would otherwise not make the call again.
 */
import * as Result from "effect/Result"
import { name } from "../Display.ts"
import type { RequestId, RunId, Timestamp } from "../Id.ts"
import { text, type UserPart } from "../Message.ts"
import { attribute, of, type Principal, PrincipalInvalid } from "../Principal.ts"
import { RequestNotDenied, RequestNotFound } from "../Rejection.ts"
import { RunEnded } from "../RunError.ts"
import { findRequest, isEnded, type Reopens, type RunState } from "../RunState.ts"
import { denialIn } from "./denials.ts"
import { noteText } from "./editText.ts"

/** The author and the time of a reopening, and what the model reads about it. */
export interface ReopenOptions {
  /** The person who reopens the request. */
  readonly by: string | Principal
  /** The reason, which the model reads. */
  readonly note?: string
}

/** A message that reopens a request. */
export interface ReopenMessage {
  readonly content: ReadonlyArray<UserPart>
  readonly reopens: Reopens
  /** The run of the sub-agent that asked. */
  readonly to?: RunId
}

/** The refusals of a reopening. */
export type ReopenError = RequestNotFound | RequestNotDenied | RunEnded | PrincipalInvalid

/**
 * Makes the message that reopens a request of a run or of a sub-agent in it; `undefined` if the request is reopened already, in the state or
 * by one of `sent`, the messages that the state does not contain yet.
 */
export const reopenMessage = (
  root: RunState,
  requestId: RequestId,
  { at, by, note }: ReopenOptions & { readonly at: Timestamp },
  sent: ReadonlyArray<{ readonly reopens?: Reopens }> = []
): Result.Result<ReopenMessage | undefined, ReopenError> => {
  const who = attribute(by)
  if (Result.isFailure(who)) return Result.fail(who.failure)
  const { kind } = of(who.success)
  if (kind !== "person") {
    return Result.fail(
      new PrincipalInvalid({
        problem: `a denial is reopened by a person, not by a party of the kind ${kind}`
      })
    )
  }
  const found = findRequest(root, requestId)
  if (found === undefined) return Result.fail(new RequestNotFound({ requestId: String(requestId) }))
  if (isEnded(root)) return Result.fail(new RunEnded({ runId: root.runId, status: root.status }))
  const { record } = found
  const isSent = sent.some(({ reopens }) => reopens?.requestId === requestId)
  if (record.reopened !== undefined || isSent) return Result.succeed(undefined)
  const denial = denialIn(record)
  if (denial === undefined) return Result.fail(new RequestNotDenied({ requestId }))
  const { callId, runId, tool } = denial.request
  const said = `${name(who.success.by)} reopened the denied call ${callId} of ${tool}: make the same call again if it is still needed. It is asked about then.`
  return Result.succeed({
    content: [text(note === undefined || note === "" ? said : `${said}\n\n${noteText(note)}`)],
    reopens: { requestId, ...who.success, at },
    ...(runId === root.runId ? {} : { to: runId })
  })
}
