/**
 * The error of a closed Fermata.
 */
import { TaggedError } from "../../domain/TaggedError.ts"

/** The Fermata was closed. Make another one; its stored runs are in the store. */
export class FermataClosed extends TaggedError<FermataClosed>()("FermataClosed", {}) {
  override get message() {
    return "This Fermata was closed: make another one. Its stored runs are in the store."
  }
}
