/**
 * The groups of sentences that the contract of the run store consists of, and what runs them.
 */
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import type * as Scope from "effect/Scope"
import { RunStore } from "../../../store/RunStore.ts"
import type { RunStoreError } from "../../../store/RunStoreError.ts"

/** What the suites need of a test runner; `@effect/vitest` fits. */
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

/** What the suite cannot do by itself; the sentences that need it are left out without it. */
export interface StoreHooks {
  /**
   * Sets the clock by which leases are judged back, or does what is the same to the leases that are there: moves the end of each so
   * much later.
   */
  readonly setBack?: (milliseconds: number) => Effect.Effect<unknown, unknown>
}

/** One group of the contract's sentences. */
export interface Group {
  readonly assert: TestRunner["assert"]
  readonly hooks: StoreHooks
  /** Expects that an effect fails: with an error of this tag, or with one that carries these facts. */
  readonly fails: (
    effect: Effect.Effect<unknown, unknown>,
    expected: string | object
  ) => Effect.Effect<void, unknown>
  /** Tests one sentence with a fresh store. */
  readonly test: (title: string, body: (store: Store) => Effect.fn.Return<unknown, unknown>) => void
}

/** The facts that an error carries. */
export const fields = (error: unknown): { readonly [key: string]: unknown } =>
  JSON.parse(JSON.stringify({ ...(error as object), isRetryable: undefined }))

/** The facts of an effect's error. */
export const factsOf = (effect: Effect.Effect<unknown, unknown>) => Effect.map(Effect.flip(effect), fields)

/** Runs groups of tests over a layer; each test builds its own. */
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
