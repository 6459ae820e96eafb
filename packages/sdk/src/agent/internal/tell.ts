/**
 * Telling a program's own callback something without becoming dependent on it.
 */
import { isPromise } from "./Drive.ts"

/** Tells a hook. What becomes of that is the hook's own affair. */
export const tell = <A>(hook: ((told: A) => void) | undefined, told: A): void => {
  if (hook !== undefined) callOut(() => hook(told))
}

/** Calls a callback of the program. What it throws, or rejects with, ends here. */
export const callOut = (callback: () => unknown): void => {
  const ignore = () => {}
  try {
    const out = callback()
    if (isPromise(out)) out.then(ignore, ignore)
  } catch {
    ignore()
  }
}
