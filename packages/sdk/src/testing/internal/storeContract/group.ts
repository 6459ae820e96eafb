/**
 * The contract suite is a list of groups of tests. This module defines a group and runs it over a layer.
 */
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import type * as Scope from "effect/Scope"
import { RunStore } from "../../../store/RunStore.ts"
import type { RunStoreError } from "../../../store/RunStoreError.ts"

/** The functions of a test runner that the suite calls. `@effect/vitest` provides them. */
export interface TestRunner {
  readonly describe: (name: string, body: () => void) => void
  readonly it: {
    readonly effect: (title: string, test: () => Effect.Effect<unknown, unknown, Scope.Scope>) => void
  }
  readonly assert: {
    readonly strictEqual: (actual: unknown, expected: unknown, message?: string) => void
    readonly deepStrictEqual: (actual: unknown, expected: unknown, message?: string) => void
    readonly isTrue: (value: unknown, message?: string) => void
  }
}

export type Store = RunStore["Service"]

/** Functions that a store's own tests provide. A test that needs an absent one is not declared. */
export interface StoreHooks {
  /** Sets the clock that measures leases back, or, equivalently, moves the end of each existing lease later by this time. */
  readonly setBack?: (milliseconds: number) => Effect.Effect<unknown, unknown>
}

/** The tools with which a group declares its tests. */
export interface Group {
  readonly assert: TestRunner["assert"]
  readonly hooks: StoreHooks
  /** Asserts that an effect fails with an error of this tag, or with exactly these fields. */
  readonly fails: (
    effect: Effect.Effect<unknown, unknown>,
    expected: string | object
  ) => Effect.Effect<void, unknown>
  /** Declares a test that receives a fresh store. */
  readonly test: (title: string, body: (store: Store) => Effect.fn.Return<unknown, unknown>) => void
}

/** The fields of an error, except `isRetryable`. */
export const fields = (error: unknown): { readonly [key: string]: unknown } =>
  JSON.parse(JSON.stringify({ ...(error as object), isRetryable: undefined }))

/** The fields of the error with which an effect fails. */
export const factsOf = (effect: Effect.Effect<unknown, unknown>) => Effect.map(Effect.flip(effect), fields)

/** Makes the function that declares groups of tests for a layer. Each test builds the layer anew. */
export const runGroups =
  ({ assert, describe, it }: TestRunner, groups: ReadonlyArray<(group: Group) => void>) =>
  (name: string, layer: Layer.Layer<RunStore, RunStoreError>, hooks: StoreHooks = {}): void =>
    describe(`RunStore (${name})`, () => {
      const test: Group["test"] = (title, body) =>
        it.effect(title, () =>
          Effect.flatMap(RunStore, (store) => Effect.gen(() => body(store))).pipe(
            Effect.provide(Layer.fresh(layer))
          )
        )
      const fails: Group["fails"] = (effect, expected) =>
        Effect.map(factsOf(effect), (facts) =>
          assert.deepStrictEqual(typeof expected === "string" ? facts["_tag"] : facts, expected)
        )
      for (const group of groups) group({ assert, fails, hooks, test })
    })
