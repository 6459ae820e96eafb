import type { Kind } from "../../domain/internal/misfits.ts"

/** The kind of a token, by which a result from outside finds its call. */
export const tokenKind: Kind = {
  takes: "a text of 1 to 512 characters",
  // A database replaces half of a surrogate pair, or refuses it, and so it does with U+0000.
  is: (value) =>
    typeof value === "string" &&
    value.length > 0 &&
    value.length <= 512 &&
    value.isWellFormed() &&
    !value.includes("\0"),
  among: ["string"]
}
