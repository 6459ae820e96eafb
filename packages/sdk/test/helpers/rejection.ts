/**
 * The reason of a promise that has to be rejected.
 */
import { assert } from "@effect/vitest"

/** Returns the reason of a rejected promise. A promise that is fulfilled fails the test. */
// oxlint-disable-next-line typescript/no-explicit-any
export const rejection = (promise: Promise<unknown>): Promise<any> =>
  promise.then(
    () => assert.fail("The promise was fulfilled."),
    (error: unknown) => error
  )
