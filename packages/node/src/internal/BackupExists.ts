/**
 * What a backup, or a restored store, fails with that would replace something. Apart from both, which are loaded when they are used.
 */
import * as Schema from "effect/Schema"

/** A file of this name exists already, and nothing was written. Choose another name, or move the file away. */
export class BackupExists extends Schema.TaggedError<BackupExists>()("BackupExists", {}) {
  override get message() {
    return "There is a file of that name already, and a copy never replaces one: choose another name, or move it away."
  }
}
