/**
 * The text about a command in the background that a model reads: its status, and a piece of its output.
 */
import { Display, Message, Tool } from "@fermata/sdk"
import type { BackgroundCommand } from "./BackgroundCommands.ts"
import { duration, endText } from "./commandText.ts"

/** The longest line about a piece of output. */
const frameLength = 500

/** A piece of the output from a position, or the last one, with at most `length` characters. */
export const shownOutput = (
  command: BackgroundCommand,
  since: number | undefined,
  length: number
): Tool.Content => {
  const { id, log } = command
  const { end, from, next, text } = log.read(since, Math.max(1, length - frameLength))
  const lines = [
    `${id}: ${standing(command)}`,
    text === ""
      ? `no output ${since === undefined || end === 0 ? "yet" : `after ${since}`}`
      : `output, characters ${from} to ${next} of ${end}:`
  ]
  const missing =
    since === undefined || from <= since ? [] : [`[${from - since} characters are missing here]`]
  const more =
    next < end
      ? [`[more: since ${next}]`]
      : command.status._tag === "running"
        ? [`[read on with since ${next}]`]
        : []
  const shown = [
    ...missing,
    ...(text === "" ? [] : [text.endsWith("\n") ? text.slice(0, -1) : text]),
    ...more
  ]
  return Tool.content([Message.text([...lines, ...shown].join("\n"))])
}

const standing = ({ startedAt, status }: BackgroundCommand): string => {
  switch (status._tag) {
    case "running":
      return `running for ${duration(Date.now() - startedAt)}`
    case "ended":
      return endText(status.result)
    case "stopped":
      return "stopped"
    case "failed":
      return Display.sentence`failed: ${Display.messageOf(status.error)}`
  }
}
