/**
 * The context of a control plane: the part of a store's runs that the plane is for, such as those of one tenant.
 */
import * as Effect from "effect/Effect"
import type * as Schema from "effect/Schema"
import { type RunId, lineOf } from "../../domain/Id.ts"
import { canonicalJson } from "../../domain/internal/json.ts"
import type { RunStore } from "../../store/RunStore.ts"
import type { RunNotFound, RunStoreError } from "../../store/RunStoreError.ts"

/** The keys and values that the context of each run of the plane has. */
export type PlaneContext = Readonly<Record<string, Schema.Json>>

/** Whether a run's context has all keys and values of the plane's. */
const covers = (context: PlaneContext, given: Readonly<Record<string, unknown>> | undefined): boolean =>
  given !== undefined &&
  Object.entries(context).every(
    ([key, value]) =>
      Object.hasOwn(given, key) && canonicalJson(given[key] as Schema.Json) === canonicalJson(value)
  )

/** Whether a run belongs to the plane. Every run does if the plane has no context. The first event of a journal has the run's context. */
export const isOfPlane = (
  context: PlaneContext | undefined,
  store: RunStore["Service"],
  runId: RunId
): Effect.Effect<boolean, RunNotFound | RunStoreError> =>
  context === undefined
    ? Effect.succeed(true)
    : Effect.map(
        store.events(lineOf(runId).root, { limit: 1 }),
        ([first]) => first?._tag === "run.started" && covers(context, first.startedWith?.context)
      )

/** The context of a task: that of its prompt with that of the plane. `undefined` if the prompt's contradicts the plane's. */
export const contextOfTask = (
  context: PlaneContext | undefined,
  given: PlaneContext | undefined
): { readonly context: PlaneContext | undefined } | undefined => {
  if (context === undefined) return { context: given }
  const merged = { ...given, ...context }
  return given !== undefined && !covers(given, merged) ? undefined : { context: merged }
}
