/**
 * The specification of a harmless command: its flags, its operands, and the files that it reads.
 */

/** The operands of a command: files whose content it shows (`content`), files of which it shows only facts (`names`), or texts (`text`). */
type Operands = "content" | "names" | "text"

/** The flags and operands of a command. */
export interface Spec {
  /** Short flags without a value. */
  readonly short?: string
  /** Short flags with a value. */
  readonly valued?: string
  /** Long flags without a value, or with one after `=`. */
  readonly long?: string
  /** Whether any flag is harmless. */
  readonly anyFlag?: boolean
  /** Whether a name in the working directory that looks like a flag is harmless. It has no `/`. Default: `anyFlag`. */
  readonly anyName?: boolean
  /** Whether `-5` is a flag. */
  readonly isCounted?: boolean
  readonly operands: Operands
  /** Whether the first operand is a text, unless one of the flags in `patternFlags` gives it. */
  readonly patternFlags?: string
  readonly maxOperands?: number
}

/** The paths that a harmless command reads, or why it is not harmless. */
export type Checked = { readonly paths: ReadonlyArray<string> } | { readonly problem: string }
