/**
 * What the runtime says about a call, beside its arguments.
 */

/** Whether a person has approved the call. What the rules of paths ask about is done only then. */
export const isApproved = (context: object): boolean => "isApproved" in context && context.isApproved === true

/** When the body of a call in doubt started, in milliseconds. */
export const startedAtOf = (context: object): number | undefined =>
  "startedAt" in context && typeof context.startedAt === "number" ? context.startedAt : undefined

/**
 * The answer of `needsApproval` for a call that no policy and no grant permits, with the reason for the person who decides. A runtime that knows no
 * such answer takes it as `true`; the call is then refused unless it {@link isApproved}.
 */
export const always = (why: string): boolean => ({ always: why }) as unknown as boolean
