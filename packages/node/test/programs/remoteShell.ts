/**
 * A program whose agent runs a long command in a sandbox elsewhere. `hold` starts it, prints `started` when the command writes its first
 * line, and stays. `resume` goes on, and prints what the model received, or what the run waits for. Arguments: the mode, the store, and the
 * kind and the options of the sandbox as JSON.
 */
import * as Fs from "node:fs"
import {
  agent,
  approve,
  createFermata,
  daytonaSandbox,
  Schema,
  sshSandbox,
  tmuxSandbox,
  tool
} from "@fermata/node"
import { ScriptedModel } from "@fermata/sdk/testing"
import * as Effect from "effect/Effect"

const providers = { ssh: sshSandbox, tmux: tmuxSandbox, daytona: daytonaSandbox }

const parameters = Schema.Struct({ line: Schema.String })

/** Writes when it starts and when it ends, and needs the file `go` to end. */
const line = "echo start >> log; echo one; until [ -e go ]; do sleep 0.05; done; echo end >> log; echo two"

const shell = (onStarted: () => void) =>
  tool("shell", {
    parameters,
    sandbox: true,
    handler: (args, { idempotencyKey, sandbox }) =>
      Effect.map(
        sandbox.exec(args.line, { session: idempotencyKey, onOutput: onStarted }),
        ({ stdout }) => stdout
      ),
    // The command is looked up, and followed to its end if it runs.
    reconcile: (key, args, { sandbox }) =>
      Effect.gen(function* () {
        const box = yield* sandbox
        if ((yield* box.findCommand(key))._tag === "unknown") return { _tag: "notHappened" } as const
        const { stdout } = yield* box.exec(args.line, { session: key })
        return { _tag: "happened", result: stdout } as const
      })
  })

const main = async ([mode = "", store = "", kind = "", options = "{}"]: ReadonlyArray<string>) => {
  const say = (text: string) => Fs.writeSync(1, `${text}\n`)
  const model = ScriptedModel.make(({ messages, turn }) =>
    turn === 1
      ? { calls: [{ tool: "shell", arguments: { line } }] }
      : JSON.stringify(messages.findLast(({ role }) => role === "tool")?.content)
  )
  await using fermata = await createFermata({
    agents: [agent("worker", { tools: [shell(() => say("started"))] })],
    model: model.client,
    store,
    sandbox: providers[kind as keyof typeof providers](JSON.parse(options)),
    leaseTtl: "1 minute"
  })
  if (mode === "hold") {
    const held = await fermata.runPrompt("worker", "Work", { runId: "work" })
    const decisions =
      held.status === "interrupted"
        ? held.interruptions.map((request) => ({ request, decision: approve() }))
        : []
    const end = await fermata.resume("work", { decisions })
    say(
      `not killed: ${end.status} ${JSON.stringify(end.status === "interrupted" ? end.missing : end.state.status)}`
    )
    return
  }
  const end = await fermata.resume("work")
  say(
    JSON.stringify([
      end.status,
      end.status === "completed" ? end.text : end.status === "interrupted" ? end.interruptions : undefined,
      end.state.sandbox
    ])
  )
}

if (import.meta.main) await main(process.argv.slice(2))
