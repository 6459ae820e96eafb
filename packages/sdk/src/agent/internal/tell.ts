/**
 * Telling a program's own callback something without becoming dependent on it.
 */
import { isPromise } from "./Drive.ts"

/** Tells a hook. What becomes of that is the hook's own affair. */
export const tell = <A>(hook: ((told: A) => void) | undefined, told: A): void => {
  if (hook === undefined) return
  const ignore = () => {}
  try {
    const out: unknown = hook(told)
    if (isPromise(out)) out.then(ignore, ignore)
  } catch {
    ignore()
  }
}
