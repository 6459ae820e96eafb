/**
 * The facts about a call that the runtime states besides its arguments.
 */

/** Whether a decision has approved the call. An access that the rules of paths ask about is done only then. */
export const isApproved = (context: object): boolean => "isApproved" in context && context.isApproved === true

/** When the body of a call in doubt started, in milliseconds. */
export const startedAtOf = (context: object): number | undefined =>
  "startedAt" in context && typeof context.startedAt === "number" ? context.startedAt : undefined
