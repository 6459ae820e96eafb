/**
 * The ids of Fermata. Every id is a branded string, so that one kind of id cannot be passed for another.
 *
 * Only the ids of root runs and of sessions are made outside the domain. The others are *derived*: a tool call's id from its run, turn
 * and place in the response, the id of a sub-agent's run from the call that starts it, a request's id from its run and a counter, and a
 * grant's id from its request. A process that continues a run after a crash therefore derives the same ids, and a decision finds its
 * request.
 *
 * @since 0.1.0
 */
import * as Schema from "effect/Schema"

const identifier = Schema.String.check(Schema.isPattern(/^[A-Za-z0-9_.:-]{1,512}$/))

/**
 * The id of a run: `run_` and 26 characters that sort by time, or a name that the caller chose (1 to 128 letters, digits, `_`, `.`, `:` or
 * `-`, and no derived form such as `x.t1.1`). A sub-agent's run has the id of the call that started it.
 */
export const RunId = identifier.pipe(Schema.brand("RunId"))
export type RunId = typeof RunId.Type

/** The id of a session. */
export const SessionId = identifier.pipe(Schema.brand("SessionId"))
export type SessionId = typeof SessionId.Type

/** The id of a tool call, made by Fermata. The provider's id is kept as data, because it may repeat. */
export const ToolCallId = identifier.pipe(Schema.brand("ToolCallId"))
export type ToolCallId = typeof ToolCallId.Type

/** The id of a request for a decision. */
export const RequestId = identifier.pipe(Schema.brand("RequestId"))
export type RequestId = typeof RequestId.Type

/** The id of a grant. */
export const GrantId = identifier.pipe(Schema.brand("GrantId"))
export type GrantId = typeof GrantId.Type

/** The number of events in a run's journal. */
export const Revision = Schema.Natural.pipe(Schema.brand("Revision"))
export type Revision = typeof Revision.Type

/** Milliseconds since 1970-01-01 UTC, as a number so that a state is plain JSON. */
export const Timestamp = Schema.Finite
export type Timestamp = number

/** Derives the id of the call number `ordinal` (from 1) in the response of turn `turn` (from 1). */
export const toolCallId = (runId: RunId, turn: number, ordinal: number): ToolCallId =>
  `${runId}.t${turn}.${ordinal}` as ToolCallId

/** Derives the id of the request number `index` (from 1) of a run. */
export const requestId = (runId: RunId, index: number): RequestId => `${runId}.r${index}` as RequestId

/** The run that opened a request; `undefined` if the text is not a request's id. */
export const runOfRequest = (requestId: string): RunId | undefined =>
  /^(.+)\.r\d+$/s.exec(requestId)?.[1] as RunId | undefined

/** Derives the id of the grant that the decision of a request creates. */
export const grantId = (requestId: RequestId): GrantId => `${requestId}.grant` as GrantId

/** The request whose decision created a grant; `undefined` if the text is not a grant's id. */
export const requestOfGrant = (grantId: string): RequestId | undefined =>
  /^(.+\.r\d+)\.grant$/s.exec(grantId)?.[1] as RequestId | undefined

/** The stored (root) run in which a grant was given, also by a sub-agent's request; `undefined` if the text is not a grant's id. */
export const runOfGrant = (grantId: string): RunId | undefined => {
  const runId = /^(.+)\.r\d+\.grant$/s.exec(grantId)?.[1]
  return runId === undefined ? undefined : lineOf(runId).root
}

/** Derives the id of the sub-agent's run that a tool call starts: the same text. */
export const childRunId = (callId: ToolCallId): RunId => callId as string as RunId

const callPart = /\.t\d+\.\d+(?=\.|$)/g

/** The root run of a sub-agent's run, and the calls that lead from it to that run; any other id is its own `root`, with an empty `path`. */
export const lineOf = (runId: string): { readonly root: RunId; readonly path: ReadonlyArray<ToolCallId> } => {
  const parts = [...runId.matchAll(callPart)]
  const path = parts.map(({ 0: part, index }) => runId.slice(0, index + part.length) as ToolCallId)
  // An id that continues after its last call part, such as a request's id, is not the id of a sub-agent's run.
  return path.at(-1) === runId
    ? { root: runId.slice(0, parts[0]?.index) as RunId, path }
    : { root: runId as RunId, path: [] }
}

/** Whether a run is `root` or the run of a sub-agent in it. */
export const isRunWithin = (runId: string, root: string): boolean =>
  runId === root || (runId.startsWith(`${root}.t`) && /^\.t\d+\.\d+/.test(runId.slice(root.length)))

/** Whether an id is `runId` itself, or the id of a call, request, grant or sub-agent's run inside that run. */
export const isWithin = (id: string, runId: RunId): boolean => id === runId || id.startsWith(`${runId}.`)
