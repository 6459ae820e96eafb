/** Making a model's errors, and making them anew with something changed. */
import type { ModelUsage } from "../../domain/Usage.ts"
import { ModelError, type Reason } from "../ModelError.ts"

/** What there is of an error besides its reason; what is left out is not known. */
interface Details {
  readonly requestId?: string | undefined
  readonly retryable?: boolean | undefined
  readonly usage?: ModelUsage | undefined
}

/** An error of this reason. */
export const modelError = (reason: Reason, { requestId, retryable, usage }: Details = {}): ModelError =>
  new ModelError({
    reason,
    ...(requestId === undefined ? {} : { requestId }),
    ...(retryable === undefined ? {} : { retryable }),
    ...(usage === undefined ? {} : { usage })
  })

/** The same error, with some of it changed. */
export const changed = (
  { reason, requestId, retryable, usage }: ModelError,
  changes: Details & { readonly reason?: Reason }
): ModelError => modelError(changes.reason ?? reason, { requestId, retryable, usage, ...changes })

/** The same reason in other words. */
export const described = (reason: Reason, description: string): Reason => {
  if (reason.description === description) return reason
  const Same = reason.constructor as new (fields: object) => Reason
  return new Same({ ...reason, description })
}
