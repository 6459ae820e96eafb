/**
 * Finds values in an archived run that its schemas permit, but that no run can have: times before 1970 or beyond the range of `Date`, names
 * that a database would change, a negative cost, and digests of other arguments. A store with such a value could not read the run back, or
 * would show something else than was approved.
 */
import * as Effect from "effect/Effect"
import { lines, sentence } from "../../domain/Display.ts"
import type { Timestamp } from "../../domain/Id.ts"
import { defined } from "../../domain/internal/defined.ts"
import { type Interruption, tokenOf, toolOf } from "../../domain/Interruption.ts"
import { type RunEvent, unwrap } from "../../domain/RunEvent.ts"
import { approvalDigest } from "../../run/calls/digest.ts"
import { latestTime } from "../../store/internal/bounds.ts"
import type { StoredGrant } from "../../store/StoredGrant.ts"

/** Why these values cannot come from a run; `undefined` if they can. */
export const valuesProblem = (events: ReadonlyArray<RunEvent>): string | undefined => {
  for (const [index, wrapped] of events.entries()) {
    const { event } = unwrap(wrapped)
    const problem =
      timesProblem(timesOf(wrapped)) ??
      namesProblem(namesOf(event)) ??
      (event._tag === "request.opened" ? expiryProblem(event.request) : undefined) ??
      (costOf(event) < 0 ? sentence`its cost is ${costOf(event)}` : undefined)
    if (problem !== undefined)
      return sentence`event ${index + 1} (${event._tag}) cannot have happened: ${lines(problem)}`
  }
  return undefined
}

/** Why a time cannot come from a clock; `undefined` if all can. */
export const timesProblem = (times: ReadonlyArray<Timestamp>): string | undefined => {
  const impossible = times.find((at) => !(at >= 0 && at <= latestTime))
  return impossible === undefined ? undefined : sentence`${impossible} is no time from 1970 on`
}

/** Why a revoked grant cannot be stored; `undefined` if it can. */
export const grantProblem = ({ grant: { agent = "", at, revoked, tool } }: StoredGrant): string | undefined =>
  timesProblem(revoked === undefined ? [at] : [at, revoked.at]) ?? namesProblem([tool, agent])

/** Why a name cannot be stored; `undefined` if all can. */
export const namesProblem = (names: ReadonlyArray<string>): string | undefined =>
  names.every(isName) ? undefined : "a name in it is empty, or has a character that is no text"

/** A database replaces half of a surrogate pair, or refuses it, and so it does with U+0000. */
const isName = (name: string): boolean => name !== "" && name.isWellFormed() && !name.includes("\0")

const timesOf = (wrapped: RunEvent): ReadonlyArray<Timestamp> => {
  switch (wrapped._tag) {
    case "child.advanced":
      return [wrapped.at, ...timesOf(wrapped.event)]
    case "request.opened": {
      const { request } = wrapped
      return [wrapped.at, request.at, ...(request._tag === "inDoubt" ? [request.startedAt] : [])]
    }
    case "request.decided":
      // That of an expiry is compared with the request.
      return wrapped.decision.by === "expiry" ? [wrapped.at] : [wrapped.at, wrapped.decision.at]
    case "message.queued":
      return wrapped.reopens === undefined ? [wrapped.at] : [wrapped.at, wrapped.reopens.at]
    default:
      return [wrapped.at]
  }
}

const namesOf = (event: ReturnType<typeof unwrap>["event"]): ReadonlyArray<string> => {
  switch (event._tag) {
    case "run.started":
      return [event.agent.name, ...event.agentPath, ...Object.values(defined({ under: event.under }))]
    case "agent.changed":
      return [event.agent.name]
    case "request.opened": {
      const { request } = event
      return [
        ...request.agentPath,
        ...Object.values(defined({ tool: toolOf(request), token: tokenOf(request) }))
      ]
    }
    default:
      return []
  }
}

/** The work of an external call may have been due before the call was recorded. All other expiries follow from their opening. */
const expiryProblem = (request: Interruption): string | undefined => {
  const { at, expiresAt, warnAt = 0 } = request
  if (Math.abs(expiresAt ?? 0) > latestTime || Math.abs(warnAt) > latestTime) return "its expiry is no time"
  return expiresAt !== undefined && expiresAt < at && request._tag !== "external"
    ? "it expires before it was opened"
    : undefined
}

const costOf = (event: ReturnType<typeof unwrap>["event"]): number =>
  event._tag === "model.answered" || event._tag === "model.charged" ? (event.usage.costUsd ?? 0) : 0

/** Why a request cannot have been opened with its digest, which a decision is bound to. */
export const digestProblem = Effect.fnUntraced(function* (events: ReadonlyArray<RunEvent>) {
  for (const wrapped of events) {
    const { event } = unwrap(wrapped)
    if (event._tag !== "request.opened" || event.request._tag !== "approval") continue
    const { request } = event
    if ((yield* approvalDigest(request, request.arguments)) === request.digest) continue
    return sentence`the request ${request.requestId} has the digest of another tool, other arguments or other facts`
  }
  return undefined
})
