/**
 * The steps from each released version of the run state to the next: `migrations[1]` takes version 1 to version 2.
 *
 * A step is a pure function over JSON, in a file of its own (`v1_to_v2.ts`), and never changes after its release. Version 1 is
 * the first; there is no step yet.
 *
 * @since 0.1.0
 */
export const migrations: { readonly [version: number]: (state: unknown) => unknown } = {}
