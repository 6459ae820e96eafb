/**
 * Finds the secrets of a line: the layers one after another.
 */
import type { NameBefore } from "./acrossLines.ts"
import { findRandomTexts } from "./entropy.ts"
import { findKeyValues } from "./keyValues.ts"
import { Line } from "./Line.ts"
import { masked, separated, type Span, unmasked } from "./span.ts"
import { findCredentials } from "./structure.ts"
import { findVendorTokens } from "./vendors.ts"

/** `all`: every layer. `named`: every layer but the one for random texts. `none`: no layer. */
export type Layers = "all" | "named" | "none"

/** The secrets of a line, sorted, without overlaps and without what is already removed. */
export const scan = (line: string, layers: Layers, before?: NameBefore): ReadonlyArray<Span> => {
  const text = masked(line)
  const spans: Array<Span> = []
  before?.next(text, spans)
  findVendorTokens(text, spans)
  findCredentials(text, spans)
  findKeyValues(new Line(text), spans)
  if (layers === "all") findRandomTexts(text, spans)
  return spans.length === 0 ? spans : separated(spans.flatMap((span) => unmasked(text, span) ?? []))
}
