/**
 * Why a call of the tools for commands did nothing.
 */
import { Display, TaggedError } from "@fermata/sdk"
import * as Schema from "effect/Schema"

/** A rule refuses the command. It has not run. */
export class CommandRefused extends TaggedError.TaggedError<CommandRefused>()("CommandRefused", {
  /** Which command, and why, in a sentence. */
  reason: Schema.String
}) {
  override get message() {
    return Display.sentence`The command was not run. ${this.reason} Find a way without it, or ask the user to run it.`
  }
}

/**
 * No command in the background of this process has the id, and the sandbox does not find one. After a crash, only a sandbox with the
 * capability `sessions` does.
 */
export class CommandLost extends TaggedError.TaggedError<CommandLost>()("CommandLost", {
  id: Schema.String,
  /** The ids of the commands that are known. */
  known: Schema.Array(Schema.String)
}) {
  override get message() {
    const known = this.known.length === 0 ? "none" : this.known.join(", ")
    return Display.sentence`There is no command "${this.id}" here: its id is wrong, or the process that started it has ended and its output is lost. Start it again if it is needed. Known: ${known}.`
  }
}

/** The sandbox already runs `maxBackground` commands in the background. This one has not started: stop one first. */
export class TooManyCommands extends TaggedError.TaggedError<TooManyCommands>()("TooManyCommands", {
  limit: Schema.Natural,
  /** The ids of the commands that are running. */
  running: Schema.Array(Schema.String)
}) {
  override get message() {
    return this.limit === 0
      ? "Commands cannot run in the background here. Run it without background."
      : Display.sentence`${this.limit} commands are running in the background already: stop one with shell_stop first. Running: ${this.running.join(", ")}.`
  }
}
