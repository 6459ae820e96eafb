/**
 * The check of a model client from a program without types.
 */
import { callable, type Kind } from "../../domain/internal/misfits.ts"

/** The kind of value that an option for a model client takes. */
export const clientKind: Kind = {
  takes:
    'a model client, such as openAi({ model: "..." }) returns: an object with the functions stream and complete',
  is: (value) =>
    typeof value === "object" &&
    value !== null &&
    "stream" in value &&
    callable.is(value.stream) &&
    "complete" in value &&
    callable.is(value.complete)
}
