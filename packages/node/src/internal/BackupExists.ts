/**
 * The error of a backup or a restored store that would replace a file. In its own module, because both are loaded when they are used.
 */
import { TaggedError } from "@fermata/sdk/domain"

/** A file with the name of the copy exists. It was not replaced, and no copy was made. Choose another name, or move the file away. */
export class BackupExists extends TaggedError.TaggedError<BackupExists>()("BackupExists", {}) {
  override get message() {
    return "A file of that name exists, and a copy never replaces a file: choose another name, or move the file away."
  }
}
