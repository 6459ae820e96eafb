/** What a model wrote as the arguments of a call. */
import { fieldsOf } from "./fields.ts"

/**
 * The arguments of a call in an answer that came to its proper end: as the port has them, or as they were written when they are no
 * object. The loop does not run a call like that; it tells the model.
 */
export const writtenArguments = (text: string): string => wholeArguments(text) ?? text

/** The arguments as the port has them, "" for none; `undefined` when they are not one whole object. */
export const wholeArguments = (text: string): string | undefined => {
  const trimmed = text.trim()
  if (trimmed === "" || trimmed === "null") return ""
  try {
    return fieldsOf(JSON.parse(text)) === undefined ? undefined : text
  } catch {
    return undefined
  }
}
