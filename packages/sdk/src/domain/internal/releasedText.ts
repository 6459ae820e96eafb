/**
 * The result of a call that a decision had released and that is not run.
 */
import { name } from "../Display.ts"

/** What the result says: who released the call, and why it is not run. */
export const releasedText = (decision: "approve" | "retry", by: string | undefined, why: string): string => {
  const whom = by === undefined ? "" : ` by ${name(by)}`
  return decision === "approve"
    ? `This call was approved${whom}, and has not run: ${why}.`
    : `This call was started, and it is not known whether it took effect. It was decided${whom} to run it again; it was not: ${why}.`
}
