/**
 * A secret that everybody in the campaign lets slip: people, the model, and tools. It must be found nowhere afterwards.
 */
import { Scrubber } from "@fermata/sdk/tool"

/** The secret. */
export const canary = "canary-4f1d6c8e27b95a03"

/** Knows it. */
export const scrubber = Scrubber.make({ secrets: [canary] })

/** What to look for, and where. */
export const secretsIn = (texts: ReadonlyArray<string>) => ({
  values: [canary, btoa(canary).replace(/=+$/, "")],
  texts
})
