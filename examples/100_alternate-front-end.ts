/**
 * @title Another front end: prompts, approvals, cancellation and models by commands and events alone
 *
 * A front end knows two things: `submit` and `events`. This one prints lines instead of a screen, approves payments below 100, cancels what
 * takes too long and switches the model. Scripted model.
 */
import assert from "node:assert/strict"
import { agent, createFermata, tool } from "@fermata/node"
import { ScriptedModel } from "@fermata/node/testing"
import type { Fermata } from "@fermata/sdk"
import type { RuntimeCommand, RuntimeEvent } from "@fermata/sdk/control"
import * as z from "zod"

type Plane = Pick<Fermata.RunControlPlane, "submit" | "events">
type Event = RuntimeEvent.RuntimeEvent

/** The front end: it reads events, and answers some with commands. Returns its lines when the plane has stopped. */
const frontEnd = async ({ events, submit }: Plane) => {
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
const script = async (plane: Plane, commands: ReadonlyArray<RuntimeCommand.RuntimeCommand>) => {
  for (const command of commands) {
    const answer = await plane.submit(command)
    if (answer._tag !== "TaskStarted") continue
    for await (const { event } of plane.events())
      if (event._tag === "session.saved" && event.taskId === answer.taskId) break
  }
}

export const main = async () => {
  const pay = tool("pay", {
    parameters: z.object({ amount: z.number() }),
    handler: (_, { output }) => {
      output({ stream: "stdout", chunk: "transferring\n" })
      return "paid"
    }
  })
  const sleep = tool("sleep", { safety: "readOnly", handler: () => new Promise(() => {}) })
  const model = ScriptedModel.make([
    {
      calls: [
        { tool: "pay", arguments: { amount: 20 } },
        { tool: "pay", arguments: { amount: 500 } }
      ]
    },
    "The small one is paid.",
    { calls: [{ tool: "sleep" }] },
    "Hello from the large model."
  ])
  await using fermata = await createFermata({
    agents: [agent("clerk", { tools: [pay, sleep] })],
    model: model.client,
    store: ":memory:",
    cancelGrace: 0
  })
  await using plane = await fermata.controlPlane()
  const screen = frontEnd(plane)
  await script(plane, [
    { _tag: "SubmitPrompt", prompt: "Pay both invoices" },
    { _tag: "SubmitPrompt", prompt: "Sleep" },
    { _tag: "SwitchModel", profile: "large" },
    { _tag: "SubmitPrompt", prompt: "Hello" },
    { _tag: "Shutdown" }
  ])
  const lines = await screen
  console.log(lines.join("\n"))
  assert.deepEqual(lines, [
    "> Pay both invoices",
    "pay 20?",
    "pay 500?",
    "[1/2] running pay",
    "stdout: transferring",
    "The small one is paid.",
    "> Sleep",
    "[1/1] running sleep",
    "cancelled: It takes too long.",
    "model: large",
    "> Hello",
    "Hello from the large model."
  ])
}

if (import.meta.main) await main()
