/**
 * What the runtime says about a call, beside its arguments.
 */

/** Whether a person has approved the call. What the rules of paths ask about is done only then. */
export const isApproved = (context: object): boolean => "isApproved" in context && context.isApproved === true

/** When the body of a call in doubt started, in milliseconds. */
export const startedAtOf = (context: object): number | undefined =>
  "startedAt" in context && typeof context.startedAt === "number" ? context.startedAt : undefined
