/**
 * A secret that people, models and tools of the campaign leak. It must be found nowhere afterwards.
 */
import { Scrubber } from "@fermata/sdk/tool"

/** The secret. */
export const canary = "canary-4f1d6c8e27b95a03"

/** A scrubber that knows the secret. */
export const scrubber = Scrubber.make({ secrets: [canary] })

/** The text to search for, and the places to search. */
export const secretsIn = (texts: ReadonlyArray<string>) => ({
  values: [canary, btoa(canary).replace(/=+$/, "")],
  texts
})
