/**
 * What the HTTP server needs of the runs behind it. A Fermata and the services of Effect programs each provide one.
 */
import type * as ControlPlane from "@fermata/sdk/control/ControlPlane"
import type { DecisionContent } from "@fermata/sdk/control/RuntimeCommand"
import type { Decision } from "@fermata/sdk/domain/Decision"
import type { Message } from "@fermata/sdk/domain/Message"
import type { Principal } from "@fermata/sdk/domain/Principal"
import type { RunContext } from "@fermata/sdk/domain/RunContext"
import type { PendingRequest, RunHead, SessionHead } from "@fermata/sdk/store/RunStorePort"
import type * as Effect from "effect/Effect"
import type {
  ForkPayload,
  InboxQuery,
  MessageReceipt,
  MessagesQuery,
  RunsQuery,
  SendPayload,
  SessionsQuery
} from "../ApiModel.ts"

/** An error of the backend. Those without a status are answered with 500. */
export interface Fault {
  readonly _tag: string
  readonly message: string
}

/** The control plane of some callers. */
export type Plane = ControlPlane.Shape

/** A decision with its request and its author. */
export interface Deciding {
  readonly requestId: string
  readonly decision: typeof DecisionContent.Type
  readonly digest?: string
  readonly idempotencyKey?: string
  readonly by?: string | Principal
}

type Answer<A> = Effect.Effect<A, Fault>

export interface Backend {
  /** Makes a control plane for the runs with a context. Closed with the backend. */
  readonly makePlane: (context: RunContext | undefined) => Answer<Plane>
  /** The context of a run. It never changes. */
  readonly contextOf: (runId: string) => Answer<RunContext>
  readonly run: (runId: string) => Answer<RunHead>
  readonly runs: (query: RunsQuery) => Answer<ReadonlyArray<RunHead>>
  readonly sessions: (query: SessionsQuery) => Answer<ReadonlyArray<SessionHead>>
  readonly messages: (sessionId: string, page: MessagesQuery) => Answer<ReadonlyArray<Message>>
  readonly inbox: (query: InboxQuery) => Answer<ReadonlyArray<PendingRequest>>
  readonly decide: (decision: Deciding) => Answer<Decision>
  readonly decideAll: (decisions: ReadonlyArray<Deciding>) => Answer<ReadonlyArray<Decision>>
  readonly cancel: (runId: string, reason: string) => Answer<void>
  /** Resolves to the id of the fork when it is stored. The fork is driven in the background. */
  readonly fork: (runId: string, fork: ForkPayload) => Answer<string>
  readonly send: (runId: string, message: SendPayload) => Answer<MessageReceipt>
  /** Closes the planes. */
  readonly close: Effect.Effect<void>
}
