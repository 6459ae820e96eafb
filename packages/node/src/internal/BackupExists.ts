/**
 * What a backup that would replace something fails with. Apart from the backup, which is loaded when one is made.
 */
import * as Schema from "effect/Schema"

/** A file of this name exists already, and nothing was written. Choose another name, or move the file away. */
export class BackupExists extends Schema.TaggedError<BackupExists>()("BackupExists", {}) {
  override get message() {
    return "There is a file of that name already, and a backup never replaces one: choose another name, or move it away."
  }
}
