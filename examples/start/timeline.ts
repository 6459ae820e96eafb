/**
 * Reads a run from the store: its events in words, and their size in bytes.
 */
import { DatabaseSync } from "node:sqlite"
import { type Decision, type Fermata, type RunEvent, RunState } from "@fermata/node"
import { shown } from "./terminal.ts"

/** The run's events, one line each, with the seconds since its start. */
export const timeline = async (fermata: Fermata.Fermata, runId: string): Promise<ReadonlyArray<string>> => {
  const results = RunState.messages(await fermata.state(runId)).filter((message) => message.role === "tool")
  const nameOf = (callId: string) => results.find((message) => message.callId === callId)?.name ?? callId
  const lines: Array<string> = []
  let start: number | undefined
  for await (const update of fermata.events(runId)) {
    if (update._tag !== "event") continue
    const { event } = update
    start ??= event.at
    const said = inWords(event, nameOf)
    if (said === undefined) continue
    const seconds = ((event.at - start) / 1000).toFixed(2)
    lines.push(`   +${seconds} s  ${event._tag.padEnd(16)} ${said}`.trimEnd())
  }
  return lines
}

/** A description of an event; `undefined` omits the event. */
const inWords = (event: RunEvent.RunEvent, nameOf: (callId: string) => string): string | undefined => {
  switch (event._tag) {
    case "run.started":
      return shown(event.prompt.flatMap((part) => (part._tag === "text" ? [part.text] : [])).join(" "))
    case "model.answered":
      return event.content
        .flatMap((part) =>
          part._tag === "toolCall"
            ? [`calls ${part.name}`]
            : part._tag === "text"
              ? [`says ${shown(part.text)}`]
              : []
        )
        .join(", ")
    case "tool.started":
    case "tool.completed":
      return nameOf(event.callId)
    case "request.opened":
      return `${event.request.requestId}, ${event.request._tag}`
    case "request.decided":
      return `${wordsOf(event.decision)} by ${shown(event.decision.by)}`
    case "run.held":
    case "run.resumed":
    case "run.completed":
      return ""
    default:
      return undefined
  }
}

const wordsOf = (decision: Decision.Decision): string => {
  if (decision._tag === "deny") return `deny (${shown(decision.message ?? "")})`
  return decision._tag === "approve" && decision.arguments !== undefined
    ? `approve, as ${shown(decision.arguments)},`
    : decision._tag
}

/** The number and size of a run's journal rows, by turn. */
export const bytesPerTurn = (store: string, runId: string) => {
  using database = new DatabaseSync(store, { readOnly: true })
  const rows = database
    .prepare(
      "SELECT events, length(CAST(events AS BLOB)) AS bytes FROM fermata_journal WHERE run_id = ? ORDER BY sequence"
    )
    .all(runId)
  const turns: Array<{ rows: number; bytes: number }> = []
  let answered = 0
  for (const { bytes, events } of rows) {
    answered += (JSON.parse(String(events)) as Array<RunEvent.RunEvent>).filter(
      (event) => event._tag === "model.answered"
    ).length
    const turn = (turns[Math.max(answered, 1) - 1] ??= { rows: 0, bytes: 0 })
    turn.rows += 1
    turn.bytes += Number(bytes)
  }
  return turns
}
