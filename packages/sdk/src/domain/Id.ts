/**
 * The identities of Fermata. Every id is a branded string, so that one kind cannot be passed for another.
 *
 * Only run ids and session ids are made outside the domain; all others are *derived*: a tool call's id from its run, turn
 * and place in the answer, a request's id from its run and a counter. A run that is killed before a commit and continued
 * elsewhere therefore arrives at the same ids, and an answer to a request can never miss because an id was minted twice.
 *
 * @since 0.1.0
 */
import * as Schema from "effect/Schema"

const identifier = Schema.String.check(Schema.isPattern(/^[A-Za-z0-9_.:-]{1,512}$/))

/** A run: `run_` and 26 characters that sort by time, or any name of the caller's (letters, digits, `_ . : -`). */
export const RunId = identifier.pipe(Schema.brand("RunId"))
export type RunId = typeof RunId.Type

/** A session (one conversation of one or more runs). */
export const SessionId = identifier.pipe(Schema.brand("SessionId"))
export type SessionId = typeof SessionId.Type

/** One tool call of one run. Fermata's own: a provider's id may repeat and is kept as data. */
export const ToolCallId = identifier.pipe(Schema.brand("ToolCallId"))
export type ToolCallId = typeof ToolCallId.Type

/** One request for a decision. */
export const RequestId = identifier.pipe(Schema.brand("RequestId"))
export type RequestId = typeof RequestId.Type

/** A standing approval. */
export const GrantId = identifier.pipe(Schema.brand("GrantId"))
export type GrantId = typeof GrantId.Type

/** The number of events that a run's journal holds, from 0. */
export const Revision = Schema.Natural.pipe(Schema.brand("Revision"))
export type Revision = typeof Revision.Type

/** Milliseconds since 1970-01-01 UTC. Stored as a number, so that a state is plain JSON. */
export const Timestamp = Schema.Finite
export type Timestamp = number

/** The id of the call at place `ordinal` (from 1) of the answer of turn `turn` (from 1). */
export const toolCallId = (runId: RunId, turn: number, ordinal: number): ToolCallId =>
  `${runId}.t${turn}.${ordinal}` as ToolCallId

/** The id of the request number `index` (from 1) of a run. */
export const requestId = (runId: RunId, index: number): RequestId => `${runId}.r${index}` as RequestId

/** The grant that the decision of `requestId` created. */
export const grantId = (requestId: RequestId): GrantId => `${requestId}.grant` as GrantId

/** The request whose decision created a grant; `undefined` of what is no grant's id. */
export const requestOfGrant = (grantId: string): RequestId | undefined =>
  /^(.+\.r\d+)\.grant$/s.exec(grantId)?.[1] as RequestId | undefined

/** The stored run that a grant was given in, a sub-agent's request included; `undefined` of what is no grant's id. */
export const runOfGrant = (grantId: string): RunId | undefined => {
  const runId = /^(.+)\.r\d+\.grant$/s.exec(grantId)?.[1]
  return runId === undefined ? undefined : lineOf(runId).root
}

/** The run of a sub-agent that was started by a tool call. */
export const childRunId = (callId: ToolCallId): RunId => callId as string as RunId

const callPart = /\.t\d+\.\d+(?=\.|$)/g

/** The run that a sub-agent's run lies in, and the calls that lead to it; no calls for the run of a root. */
export const lineOf = (runId: string): { readonly root: RunId; readonly path: ReadonlyArray<ToolCallId> } => {
  const parts = [...runId.matchAll(callPart)]
  const path = parts.map(({ 0: part, index }) => runId.slice(0, index + part.length) as ToolCallId)
  // Something behind the last call is the id of something else, a request's say.
  return path.at(-1) === runId
    ? { root: runId.slice(0, parts[0]?.index) as RunId, path }
    : { root: runId as RunId, path: [] }
}

/** Whether an id is that of a run, or of something in it or under it. */
export const isWithin = (id: string, runId: RunId): boolean => id === runId || id.startsWith(`${runId}.`)
