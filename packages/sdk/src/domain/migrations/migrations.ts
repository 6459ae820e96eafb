/**
 * Migrations of the run state from each released version to the next: `migrations[1]` converts version 1 to version 2.
 *
 * A migration is a pure function over JSON in its own file (`v1_to_v2.ts`) and never changes after its release. Version 1 is the only
 * version so far, so the table is empty.
 *
 * @since 0.1.0
 */
export const migrations: { readonly [version: number]: (state: unknown) => unknown } = {}
