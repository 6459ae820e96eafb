/**
 * The errors of the HTTP interface with their statuses. A body is the error's `_tag` and fields, and its sentence as `message`.
 */
import {
  AgentUnknown,
  CommandFailed,
  CommandIdTaken,
  CommandInvalid,
  CompactionActive,
  CompactionUnavailable,
  QueueFull,
  RuntimeStopped,
  SessionNotFound,
  TaskActive,
  TaskNotActive
} from "@fermata/sdk/control/CommandRejection"
import {
  AlreadyDecided,
  ArgumentsChanged,
  DecisionMalformed,
  DecisionNotApplicable,
  EditedArgumentsInvalid,
  GrantRefused,
  RequestNotFound,
  RequestSuperseded,
  SuppliedResultInvalid
} from "@fermata/sdk/domain/Rejection"
import { EmptyPrompt, RevisionNotFound, RunEnded } from "@fermata/sdk/domain/RunError"
import { MessageInvalid, RunBusy, RunNotFound } from "@fermata/sdk/store/RunStoreError"
import * as HttpApiSchema from "effect/http-api/HttpApiSchema"
import * as HttpServerResponse from "effect/http/HttpServerResponse"
import { RequestRefused } from "../RequestRefused.ts"
import type { Fault } from "./Backend.ts"

const notFound = HttpApiSchema.status(404)
const conflict = HttpApiSchema.status(409)
const gone = HttpApiSchema.status(410)
const unfit = HttpApiSchema.status(422)
const unavailable = HttpApiSchema.status(503)

/** What any request may be answered with. */
const refusals = [400, 401, 403, 404, 405, 413, 415, 429, 500, 503].map((status) =>
  RequestRefused.pipe(HttpApiSchema.status(status))
)

/** The errors of commands. */
export const ofCommands = [
  ...refusals,
  AgentUnknown.pipe(notFound),
  RequestNotFound.pipe(notFound),
  SessionNotFound.pipe(notFound),
  AlreadyDecided.pipe(conflict),
  AlreadyDecided.pipe(gone),
  ArgumentsChanged.pipe(conflict),
  CommandIdTaken.pipe(conflict),
  CompactionActive.pipe(conflict),
  QueueFull.pipe(conflict),
  RequestSuperseded.pipe(conflict),
  TaskActive.pipe(conflict),
  TaskNotActive.pipe(conflict),
  CommandFailed.pipe(unfit),
  CommandInvalid.pipe(unfit),
  CompactionUnavailable.pipe(unfit),
  DecisionMalformed.pipe(unfit),
  DecisionNotApplicable.pipe(unfit),
  EditedArgumentsInvalid.pipe(unfit),
  GrantRefused.pipe(unfit),
  SuppliedResultInvalid.pipe(unfit),
  RuntimeStopped.pipe(unavailable)
]

/** The errors of decisions. */
export const ofDecisions = [
  ...refusals,
  RequestNotFound.pipe(notFound),
  AlreadyDecided.pipe(conflict),
  AlreadyDecided.pipe(gone),
  ArgumentsChanged.pipe(conflict),
  RequestSuperseded.pipe(conflict),
  DecisionMalformed.pipe(unfit),
  DecisionNotApplicable.pipe(unfit),
  EditedArgumentsInvalid.pipe(unfit),
  GrantRefused.pipe(unfit),
  SuppliedResultInvalid.pipe(unfit)
]

/** The errors of runs and sessions. */
export const ofRuns = [
  ...refusals,
  RunNotFound.pipe(notFound),
  SessionNotFound.pipe(notFound),
  RunBusy.pipe(conflict),
  RunEnded.pipe(conflict),
  EmptyPrompt.pipe(unfit),
  MessageInvalid.pipe(unfit),
  RevisionNotFound.pipe(unfit)
]

const statuses: Readonly<Record<string, number>> = {
  AgentUnknown: 404,
  RequestNotFound: 404,
  RunNotFound: 404,
  SessionNotFound: 404,
  ArgumentsChanged: 409,
  CommandIdTaken: 409,
  CompactionActive: 409,
  QueueFull: 409,
  RequestSuperseded: 409,
  RunBusy: 409,
  RunEnded: 409,
  TaskActive: 409,
  TaskNotActive: 409,
  CommandFailed: 422,
  CommandInvalid: 422,
  CompactionUnavailable: 422,
  DecisionMalformed: 422,
  DecisionNotApplicable: 422,
  EditedArgumentsInvalid: 422,
  EmptyPrompt: 422,
  GrantRefused: 422,
  MessageInvalid: 422,
  RevisionNotFound: 422,
  SuppliedResultInvalid: 422,
  RuntimeStopped: 503
}

/** Errors whose sentence is fit to send, and that have no class of their own on the wire. */
const asRefusals: Readonly<Record<string, number>> = {
  AgentNotFound: 404,
  OptionsInvalid: 422,
  PrincipalInvalid: 422,
  RunExists: 409,
  SessionBusy: 409,
  SessionTaken: 409,
  FermataClosed: 503
}

/** The HTTP status of an error. A request that has expired is gone; one that a party has decided is a conflict. */
const statusOf = (error: Fault): number | undefined => {
  if (error instanceof RequestRefused) return error.status
  if (error instanceof AlreadyDecided) return error.by === "expiry" ? 410 : 409
  return statuses[error._tag]
}

/** The refusal for an error that has no class on the wire. An unexpected error says nothing about the host. */
const refusalOf = (error: unknown): RequestRefused => {
  const reason = isFault(error) ? error._tag : "Unknown"
  const status = asRefusals[reason]
  if (isFault(error) && status !== undefined)
    return new RequestRefused({ status, reason, problem: error.message })
  return reason === "RunStoreError"
    ? new RequestRefused({
        status: 503,
        reason,
        problem: "The store cannot be used at the moment: repeat the request later."
      })
    : new RequestRefused({
        status: 500,
        reason: "Internal",
        problem: "The server could not answer the request; its log says more."
      })
}

const isFault = (error: unknown): error is Fault =>
  typeof error === "object" &&
  error !== null &&
  "_tag" in error &&
  typeof error._tag === "string" &&
  "message" in error &&
  typeof error.message === "string"

/** The status and the body of an error. */
export const problemOf = (given: unknown): { readonly status: number; readonly body: object } => {
  const isKnown = isFault(given) && statusOf(given) !== undefined
  const error: Fault = isKnown ? given : refusalOf(given)
  const { _tag, message } = error
  const { cause: _, ...fields } = error as Fault & { readonly cause?: unknown }
  return { status: statusOf(error) ?? 500, body: { ...fields, _tag, message } }
}

/** The response for an error. */
export const problemResponse = (error: unknown): HttpServerResponse.HttpServerResponse => {
  const { body, status } = problemOf(error)
  return HttpServerResponse.jsonUnsafe(body, { status })
}
