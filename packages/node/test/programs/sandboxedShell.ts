/**
 * A program whose agent runs commands in a sandbox that bubblewrap confines. `hold` runs it until a command waits for approval, prints
 * `held` and, if the command in the background has ended, how, and stays. `resume` approves the command, goes on, and prints what the model received, or what the run waits for.
 */
import * as Fs from "node:fs"
import { agent, approve, bubblewrapSandbox, createFermata, Schema, tool } from "@fermata/node"
import { ScriptedModel } from "@fermata/sdk/testing"
import * as Effect from "effect/Effect"

const parameters = Schema.Struct({ line: Schema.String })
const run = (name: string, safety: "readOnly" | "sideEffecting") =>
  tool(name, {
    parameters,
    safety,
    sandbox: true,
    handler: ({ line }, { sandbox }) =>
      Effect.map(sandbox.exec(line), ({ stdout }) => `${sandbox.target}: ${stdout}`)
  })

/** How the command in the background ended, which is to stay. */
let ended: string | undefined

/** Stays in the background until the sandbox is released. */
const serve = tool("serve", {
  parameters,
  safety: "readOnly",
  sandbox: true,
  handler: ({ line }, { sandbox }) =>
    Effect.callback<string>((resume) => {
      const running = sandbox
        .exec(line, {
          onOutput: ({ chunk, stream }) => {
            // What the wall itself writes is no output of the command.
            if (stream === "stdout") resume(Effect.succeed(chunk))
          }
        })
        .pipe(
          Effect.onExit((exit) =>
            Effect.sync(() => {
              ended = JSON.stringify(exit)
              resume(Effect.succeed(ended))
            })
          )
        )
      Effect.runFork(Effect.forkIn(running, sandbox.scope))
    })
})

const main = async ([mode = "", store = "", workdir = "", text = ""]: ReadonlyArray<string>) => {
  const note = "echo before the kill > note; cat note"
  const model = ScriptedModel.make(({ messages, turn }) =>
    turn === 1
      ? {
          calls: [
            { tool: "look", arguments: { line: note } },
            { tool: "serve", arguments: { line: `echo serving; sleep 600; : ${text}` } },
            { tool: "act", arguments: { line: "cat note; touch /usr/outside || echo walled" } }
          ]
        }
      : JSON.stringify(messages.findLast(({ role }) => role === "tool")?.content)
  )
  await using fermata = await createFermata({
    agents: [agent("worker", { tools: [run("look", "readOnly"), serve, run("act", "sideEffecting")] })],
    model: model.client,
    store,
    sandbox: bubblewrapSandbox(),
    workingDirectory: workdir,
    leaseTtl: "1 minute"
  })
  if (mode === "hold") {
    const held = await fermata.runPrompt("worker", "Work", { runId: "work" })
    const status = held.status === "interrupted" ? "held" : held.status
    Fs.writeSync(1, `${[status, ...(ended === undefined ? [] : [ended])].join(": ")}\n`)
    return new Promise<void>(() => setInterval(() => {}, 1000))
  }
  const held = await fermata.resume("work")
  const decisions =
    held.status === "interrupted"
      ? held.interruptions.map((request) => ({ request, decision: approve() }))
      : []
  const end = await fermata.resume("work", { decisions })
  const missing = end.status === "interrupted" ? end.missing : undefined
  Fs.writeSync(
    1,
    `${JSON.stringify([end.status, end.status === "completed" ? end.text : missing, end.state.sandbox])}\n`
  )
}

if (import.meta.main) await main(process.argv.slice(2))
