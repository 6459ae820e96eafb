/**
 * The contents to which events and messages refer. All stores use these rules, including the memory store.
 */
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Result from "effect/Result"
import type { BlobRef } from "../../domain/Blob.ts"
import type { Decision, DecisionToRecord } from "../../domain/Decision.ts"
import { decodeRecord } from "../../domain/internal/given.ts"
import { type AssistantPart, text } from "../../domain/Message.ts"
import type { AnsweredPart, RunEvent } from "../../domain/RunEvent.ts"
import { BlobMissing, RunStoreError } from "../RunStoreError.ts"
import type { RunStorePort } from "../RunStorePort.ts"
import type { SentMessage } from "../SentMessage.ts"
import { type Copy, copyOf } from "./copies.ts"
import { decodeMessage } from "./messages.ts"

/** The maximum length of a piece in which a content is stored and read: 256 KiB. */
export const pieceBytes = 256 * 1024

/** The pieces of a content as one array, which shares no memory with them. */
export const joined = (pieces: ReadonlyArray<Uint8Array>): Uint8Array<ArrayBuffer> => {
  const whole = new Uint8Array(pieces.reduce((length, piece) => length + piece.length, 0))
  let at = 0
  for (const piece of pieces) {
    whole.set(piece, at)
    at += piece.length
  }
  return whole
}

type Part = AssistantPart | AnsweredPart

const nothing: ReadonlyArray<never> = []

/** The contents to which events of a run, and of the sub-agents in it, refer: each once, ordered by SHA-256. Most batches refer to none. */
export const blobsOf = (events: ReadonlyArray<RunEvent>): ReadonlyArray<BlobRef> => {
  let found: References | undefined
  for (const event of events) found = collect(contentOf(event), found)
  return ordered(found)
}

/** The contents to which messages refer. */
export const blobsIn = (messages: ReadonlyArray<Pick<SentMessage, "content">>): ReadonlyArray<BlobRef> => {
  let found: References | undefined
  for (const { content } of messages) found = collect(content, found)
  return ordered(found)
}

type References = Map<string, BlobRef>

/** Adds the references of parts. The length is part of the key, so that each wrong one is found. */
const collect = (parts: ReadonlyArray<Part>, found: References | undefined): References | undefined => {
  let all = found
  for (const part of parts) {
    const ref = refOf(part)
    if (ref === undefined) continue
    all ??= new Map()
    all.set(`${ref.sha256} ${ref.bytes}`, { sha256: ref.sha256, bytes: ref.bytes })
  }
  return all
}

/** In one order for all writers, so that none waits for a row that another one has locked while that one waits for it. */
const ordered = (found: References | undefined): ReadonlyArray<BlobRef> =>
  found === undefined ? nothing : Array.from(found.values()).sort(bySha256)

/** The order of contents. */
export const bySha256 = (one: Pick<BlobRef, "sha256">, other: Pick<BlobRef, "sha256">): number =>
  one.sha256 < other.sha256 ? -1 : one.sha256 === other.sha256 ? 0 : 1

const refOf = (part: Part): BlobRef | undefined => {
  if (part._tag === "text") return part.whole
  return part._tag === "file" && part.source._tag === "stored" ? part.source : undefined
}

/** The parts that an event of a run, or of a sub-agent in it, adds. */
const contentOf = (event: RunEvent): ReadonlyArray<Part> => {
  switch (event._tag) {
    case "child.advanced":
      return contentOf(event.event)
    case "run.started":
      return event.prompt
    case "model.answered":
    case "message.queued":
    case "tool.completed":
    case "tool.failed":
    case "tool.denied":
      return event.content
    case "run.cancelled":
      return event.said ?? nothing
    case "request.decided":
      return wholeOf(event.decision)
    default:
      return nothing
  }
}

/** The whole text of a shortened result, as the part that has it. */
const wholeOf = (decision: Decision): ReadonlyArray<Part> =>
  decision._tag === "supply" && decision.whole !== undefined
    ? [{ ...text(""), whole: decision.whole }]
    : nothing

/** The contents to which decisions refer. */
export const blobsOfDecisions = (decisions: ReadonlyArray<Decision>): ReadonlyArray<BlobRef> => {
  let found: References | undefined
  for (const decision of decisions) found = collect(wholeOf(decision), found)
  return ordered(found)
}

/** The contents to which a copy of a run refers, in its journal and in its mail. */
export const blobsOfCopy = ({ decisions, events, messages }: Copy): ReadonlyArray<BlobRef> => [
  ...blobsOf(events),
  ...blobsIn(messages),
  ...blobsOfDecisions(decisions)
]

/** The contents to which decisions refer that may not be valid. */
const blobsOfInputs = (inputs: ReadonlyArray<DecisionToRecord>): ReadonlyArray<BlobRef> =>
  Array.isArray(inputs)
    ? blobsOfDecisions(inputs.flatMap((input) => Option.toArray(Result.getSuccess(decodeRecord(input, 0)))))
    : nothing

/** The error for a reference to a content that the store does not have. */
export const missingBlob = (operation: string, { bytes, sha256 }: BlobRef): RunStoreError =>
  new RunStoreError({ operation, reason: new BlobMissing({ sha256, bytes }) })

/** Makes a store without `blobs` refuse each write with a reference. */
export const refusingReferences = (store: RunStorePort): RunStorePort => {
  if (store.blobs !== undefined) return store
  const guarded = <A, E>(
    operation: string,
    refs: () => ReadonlyArray<BlobRef>,
    write: Effect.Effect<A, E>
  ): Effect.Effect<A, E | RunStoreError> =>
    Effect.suspend((): Effect.Effect<A, E | RunStoreError> => {
      const [first] = refs()
      return first === undefined ? write : Effect.fail(missingBlob(operation, first))
    })
  const writing =
    <Options extends { readonly events: ReadonlyArray<RunEvent> }, A, E>(
      operation: string,
      write: (options: Options) => Effect.Effect<A, E>
    ) =>
    (options: Options) =>
      guarded(operation, () => blobsOf(options.events), write(options))
  return {
    ...store,
    create: writing("create", store.create),
    append: writing("append", store.append),
    park: writing("park", store.park),
    restore: (runs, decisions, messages, revoked) =>
      guarded(
        "restore",
        () => [...runs.flatMap((run) => blobsOfCopy(copyOf(run))), ...blobsIn(messages)],
        store.restore(runs, decisions, messages, revoked)
      ),
    send: (runId, message) =>
      guarded(
        "send",
        () => blobsIn(Option.toArray(Result.getSuccess(decodeMessage(message, 0, runId)))),
        store.send(runId, message)
      ),
    decide: (input) => guarded("decide", () => blobsOfInputs([input]), store.decide(input)),
    decideAll: (inputs) => guarded("decideAll", () => blobsOfInputs(inputs), store.decideAll(inputs))
  }
}
