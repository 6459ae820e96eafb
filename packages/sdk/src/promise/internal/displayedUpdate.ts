/**
 * Updates as they may leave the program: without the data that only the provider reads, such as encrypted reasoning and signatures. A
 * program may give such data with a message, too.
 */
import type { RunUpdate } from "../../agent/RunUpdate.ts"
import type { RunEvent } from "../../domain/RunEvent.ts"

/** Leaves the provider's data out of an update. */
export const displayedUpdate = (update: RunUpdate): unknown => {
  switch (update._tag) {
    case "event":
      return { ...update, event: displayedEvent(update.event) }
    case "delta":
      return { ...update, part: withoutReplay(update.part) }
    default:
      return update
  }
}

const displayedEvent = (event: RunEvent): unknown => {
  switch (event._tag) {
    case "child.advanced":
      return { ...event, event: displayedEvent(event.event) }
    case "run.started":
      return { ...event, prompt: event.prompt.map(withoutReplay) }
    default:
      return "content" in event ? { ...event, content: event.content.map(withoutReplay) } : event
  }
}

type Fields = Readonly<Record<string, unknown>>

const withoutReplay = (part: object): unknown => {
  const { paused: _paused, payload: _payload, provider: _provider, ...rest } = part as Fields
  return rest
}
