/**
 * Ids as programs without types give them.
 */
import { kindOf } from "../../domain/internal/kindOf.ts"
import { RunNotFound } from "../RunStoreError.ts"

/** No run has what was given as its id. */
export const notARun = (given: unknown): RunNotFound => new RunNotFound({ runId: "", given: kindOf(given) })
