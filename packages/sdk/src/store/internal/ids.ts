/**
 * Ids as programs without types give them: a store is asked only for strings. Shared by all stores.
 */
import * as Effect from "effect/Effect"
import { kindOf } from "../../domain/internal/kindOf.ts"
import { RequestNotFound } from "../../domain/Rejection.ts"
import type { RunStore } from "../RunStore.ts"
import { RunNotFound, RunStoreError, StoreFault } from "../RunStoreError.ts"

type Service = RunStore["Service"]

/** No run has what was given as its id. */
export const notARun = (given: unknown): RunNotFound => new RunNotFound({ runId: "", given: kindOf(given) })

/** A store that answers, as it answers unknown ids, what is asked of it with ids that are no strings. */
export const withStringIds = (store: Service): Service => {
  const aboutRun =
    <Rest extends ReadonlyArray<any>, A, E>(ask: (runId: any, ...rest: Rest) => Effect.Effect<A, E>) =>
    (runId: any, ...rest: Rest): Effect.Effect<A, E | RunNotFound> =>
      typeof runId === "string" ? ask(runId, ...rest) : Effect.fail(notARun(runId))
  const listing =
    <Given extends Readonly<Record<string, any>>, A, E>(
      operation: string,
      names: ReadonlyArray<keyof Given & string>,
      list: (filter?: Given) => Effect.Effect<A, E>
    ) =>
    (filter?: Given): Effect.Effect<A, E | RunStoreError> => {
      const wrong = names.find((name) => filter?.[name] !== undefined && typeof filter[name] !== "string")
      return wrong === undefined
        ? list(filter)
        : Effect.fail(notAString(operation, `the filter's ${wrong}`, filter?.[wrong]))
    }
  return {
    ...store,
    load: aboutRun(store.load),
    events: aboutRun(store.events),
    head: aboutRun(store.head),
    send: aboutRun(store.send),
    requestCancel: aboutRun(store.requestCancel),
    remove: aboutRun(store.remove),
    claim: (options) =>
      typeof options.runId === "string" ? store.claim(options) : Effect.fail(notARun(options.runId)),
    decisions: (runId) =>
      typeof runId === "string"
        ? store.decisions(runId)
        : Effect.fail(notAString("decisions", "the run's id", runId)),
    messages: (runId) =>
      typeof runId === "string"
        ? store.messages(runId)
        : Effect.fail(notAString("messages", "the run's id", runId)),
    latest: (sessionId) =>
      typeof sessionId === "string"
        ? store.latest(sessionId)
        : Effect.fail(notAString("latest", "the session's id", sessionId)),
    request: (requestId) =>
      typeof requestId === "string"
        ? store.request(requestId)
        : Effect.fail(new RequestNotFound({ requestId: kindOf(requestId) })),
    pending: listing("pending", ["runId", "sessionId", "kind", "tool", "agent", "after"], store.pending),
    list: listing("list", ["sessionId", "agent", "status", "after"], store.list)
  }
}

const notAString = (operation: string, what: string, given: unknown): RunStoreError =>
  new RunStoreError({
    operation,
    reason: new StoreFault({
      detail: `${what} is ${kindOf(given)}, and has to be a string.`,
      retryable: false
    })
  })
