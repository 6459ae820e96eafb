/**
 * Updates as they may leave the program: without the data that only the provider reads, such as encrypted reasoning and signatures.
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
    case "model.answered":
      return { ...event, content: event.content.map(withoutReplay) }
    default:
      return event
  }
}

const withoutReplay = (part: object): unknown => {
  const { payload: _payload, provider: _provider, ...rest } = part as Readonly<Record<string, unknown>>
  return rest
}
