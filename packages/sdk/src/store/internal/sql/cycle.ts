/**
 * Following a run to the ones that it builds on, in one statement that ends whatever the rows say: a damaged row can name the run
 * itself, or one that builds on it.
 *
 * Each row of `chain` carries a run that was passed before (`mark`), which moves on at every depth that is a power of two. A circle
 * meets its mark after three times its length at most (Brent's algorithm), without a list of the runs that were passed.
 */

/** The mark that a row of `table`, one further than `chain`, carries. The first row carries its own run. */
export const nextMark = (table: string): string =>
  `CASE WHEN (chain.depth + 1) & chain.depth = 0 THEN ${table}.run_id ELSE chain.mark END`

/** Joins a row only where it does not close a circle. Instead there is a row of nulls, as where a run is missing. */
export const isUnmarked = (table: string): string => `${table}.run_id <> chain.mark`
