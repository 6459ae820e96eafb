/**
 * The front end of example 100: it knows `submit` and `events`, and nothing else of Fermata.
 */
import type { Fermata } from "@fermata/sdk"
import type { RuntimeCommand, RuntimeEvent } from "@fermata/sdk/control"

type Plane = Pick<Fermata.RunControlPlane, "submit" | "events">
type Event = RuntimeEvent.RuntimeEvent

/** The front end: it reads events, and answers some with commands. Returns its lines when the plane has stopped. */
export const frontEnd = async ({ events, submit }: Plane) => {
  const lines: Array<string> = []
  const say = (line: string) => void lines.push(line)
  const react = async (event: Event) => {
    switch (event._tag) {
      case "task.started":
        return say(`> ${event.prompt}`)
      case "model.messageFinal":
        return event.text === "" ? undefined : say(event.text)
      case "task.progress":
        return say(event.text)
      case "tool.output":
        return say(`${event.stream}: ${event.chunk.trim()}`)
      case "tool.approvalRequired": {
        const { request } = event
        if (request._tag !== "approval") return
        const { amount } = request.arguments as { readonly amount: number }
        say(`${request.tool} ${amount}?`)
        const decision =
          amount < 100 ? { _tag: "approve" as const } : { _tag: "deny" as const, message: "Too much." }
        return void (await submit({ _tag: "Approve", approvalId: request.requestId, decision }))
      }
      case "tool.started":
        if (event.tool === "sleep")
          await submit({ _tag: "CancelTask", taskId: event.taskId, reason: "It takes too long." })
        return
      case "model.profileSwitched":
        return say(`model: ${event.configuration.model}`)
      case "task.cancelled":
        return say(`cancelled: ${event.reason}`)
    }
  }
  for await (const { event } of events()) await react(event)
  return lines
}

/** Submits a command when the task before it has ended. */
export const script = async (plane: Plane, commands: ReadonlyArray<RuntimeCommand.RuntimeCommand>) => {
  for (const command of commands) {
    const answer = await plane.submit(command)
    if (answer._tag !== "TaskStarted") continue
    for await (const { event } of plane.events())
      if (event._tag === "session.saved" && event.taskId === answer.taskId) break
  }
}
