/**
 * Removes the secrets that this process uses; see `knownSecrets.ts`. It costs a text without them little: one look at each character.
 */
import { attachIndex, type KnownSecret } from "../../../model/internal/knownSecrets.ts"
import { formsOf, type Known, KnownScrubber, KnownValues } from "./knownValues.ts"
import { placeholder, typeOf } from "./span.ts"

let values: KnownValues | undefined

const knownIn = ({ type: given, value }: KnownSecret): ReadonlyArray<Known> => {
  const type = typeOf(given)
  return formsOf(value).map((text) => ({ text, show: placeholder(type), type }))
}

/** Made on first use, since importing a module has no effects. */
const processValues = (): KnownValues => {
  if (values !== undefined) return values
  const made = new KnownValues()
  values = made
  attachIndex({
    add: (secret) => made.add(knownIn(secret)),
    remove: (secret) => made.remove(knownIn(secret))
  })
  return made
}

/** Removes the secrets from a text. Returns the same text if it has none. */
export const withoutProcessSecrets = (text: string): string => {
  const known = processValues()
  if (known.isEmpty || !known.isIn(text)) return text
  const scrubber = new KnownScrubber(known)
  return scrubber.push(text) + scrubber.end()
}

/** Removes the secrets from a text that is received in chunks. */
export const processScrubber = (): KnownScrubber => new KnownScrubber(processValues())
