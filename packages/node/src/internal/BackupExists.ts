import { TaggedError } from "@fermata/sdk/domain"
/**
 * The error of a backup or a restored store that would replace a file. In its own module, because both are loaded when they are used.
 */

/** A file of this name exists, and nothing was written. Choose another name, or move the file away. */
export class BackupExists extends TaggedError.TaggedError<BackupExists>()("BackupExists", {}) {
  override get message() {
    return "A file of that name exists, and a copy never replaces a file: choose another name, or move the file away."
  }
}
