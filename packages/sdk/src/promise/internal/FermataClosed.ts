/**
 * The error of a closed Fermata.
 */
import { TaggedError } from "../../domain/TaggedError.ts"

/** A method was called on a Fermata that was closed, or closed meanwhile. Make another one; the stored runs are in the store. */
export class FermataClosed extends TaggedError<FermataClosed>()("FermataClosed", {}) {
  override get message() {
    return "This Fermata was closed: make another one. Its stored runs are in the store."
  }
}
