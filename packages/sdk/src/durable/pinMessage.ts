/**
 * Pins messages of stored runs, so that models see them unchanged when their place is summarized.
 *
 * @since 0.2.0
 */
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { requireOptions } from "../agent/internal/soundOptions.ts"
import { sentence } from "../domain/Display.ts"
import * as History from "../domain/History.ts"
import type { RunId } from "../domain/Id.ts"
import { flag, shapeOf } from "../domain/internal/misfits.ts"
import { standsAlone } from "../domain/Message.ts"
import type { OptionsInvalid } from "../domain/OptionsInvalid.ts"
import { attribute, type Principal, type PrincipalInvalid } from "../domain/Principal.ts"
import { TaggedError } from "../domain/TaggedError.ts"
import { redactText } from "../run/internal/redact.ts"
import { RunStore } from "../store/RunStore.ts"
import type { LeaseLost, RunBusy, RunConflict, RunNotFound, RunStoreError } from "../store/RunStoreError.ts"
import { contained, Scrubber } from "../tool/Scrubber.ts"
import { appendOnce } from "./internal/appendOnce.ts"
import { loadRun } from "./internal/loadRun.ts"

/** The options of {@link pinMessage}. */
export interface PinOptions {
  /** The author of the pin, for the journal: a principal, or an unverified name. */
  readonly by: string | Principal
  /** `false` unpins the message. Default: `true`. */
  readonly pinned?: boolean
}

const shape = shapeOf<PinOptions>({ by: "anything", pinned: flag })

/**
 * The session has no message with this sequence number (`missing`), or the message makes or answers tool calls (`partOfStep`) and cannot be
 * shown alone.
 */
export class MessageNotPinnable extends TaggedError<MessageNotPinnable>()("MessageNotPinnable", {
  runId: Schema.String,
  sequence: Schema.Number,
  problem: Schema.Literals(["missing", "partOfStep"])
}) {
  override get message() {
    const what =
      this.problem === "missing"
        ? "there is no such message"
        : "it makes or answers tool calls, and cannot be shown without the others of its step"
    return sentence`The message ${this.sequence} of the run ${this.runId} cannot be pinned: ${what}. Pin a message of the user or an answer without calls.`
  }
}

/**
 * Pins a message of a run's session by its sequence number, or unpins it. Models see a pinned message unchanged even if a summary covers
 * its place. The session's later runs keep the pin. A repeated call changes nothing.
 *
 * **Errors**
 *
 * - `MessageNotPinnable` — the message cannot be pinned: choose a message of the user, or an answer without calls.
 * - `RunNotFound` — check the id.
 * - `RunBusy` — a process drives the run: pin again when the run is held or has ended.
 * - `RunConflict`, `LeaseLost`, `RunStoreError` — nothing was written; pin again.
 * - `PrincipalInvalid`, `OptionsInvalid` — correct the options.
 *
 * @category running
 * @since 0.2.0
 */
export const pinMessage: (
  runId: string,
  sequence: number,
  options: PinOptions
) => Effect.Effect<
  void,
  | MessageNotPinnable
  | RunNotFound
  | RunBusy
  | RunConflict
  | LeaseLost
  | RunStoreError
  | PrincipalInvalid
  | OptionsInvalid,
  RunStore
> = Effect.fn("fermata.pinMessage")(function* (id: string, sequence: number, options: PinOptions) {
  const runId = id as RunId
  const { by: who, pinned = true } = yield* requireOptions("pinMessage", options ?? null, shape)
  const { by, principal } = yield* Effect.fromResult(attribute(who))
  const scrubber = contained(yield* Scrubber)
  const { state } = yield* loadRun(yield* RunStore, runId)
  const message =
    Number.isInteger(sequence) && sequence >= 0 ? History.at(state.history, sequence) : undefined
  if (message === undefined) return yield* new MessageNotPinnable({ runId, sequence, problem: "missing" })
  if (!standsAlone(message)) return yield* new MessageNotPinnable({ runId, sequence, problem: "partOfStep" })
  if ((state.pinned ?? []).includes(sequence) === pinned) return
  yield* appendOnce(runId, ({ state }, at) =>
    (state.pinned ?? []).includes(sequence) === pinned
      ? []
      : [
          {
            _tag: pinned ? "message.pinned" : "message.unpinned",
            at,
            sequence,
            by: redactText(scrubber, by),
            ...(principal === undefined
              ? {}
              : { principal: { ...principal, id: redactText(scrubber, principal.id) } })
          }
        ]
  )
})
