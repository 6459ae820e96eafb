/**
 * @title Sandboxes: commands of a model that change the working directory and nothing else
 *
 * The tool runs lines of a shell in the sandbox of the run. Where bubblewrap works, the commands are confined: the attempts to read a key, to
 * write outside and to leave a hook in the repository fail, and no person has to be asked. Elsewhere the same program asks for each command, and the target
 * in the request says that nothing confines it. The model is scripted.
 */
import assert from "node:assert/strict"
import * as Fs from "node:fs"
import { agent, approve, createFermata, machineSandbox, Schema, tool } from "@fermata/node"
import { ScriptedModel } from "@fermata/node/testing"
import * as Effect from "effect/Effect"

const sandbox = machineSandbox()
const isConfined = sandbox.capabilities.has("isolated")

const shell = tool("shell", {
  parameters: Schema.Struct({ line: Schema.String }),
  sandbox: true,
  // Only a wall bounds what a command can do without a question.
  needsApproval: !isConfined,
  preview: ({ line }) => `${line}\n(${sandbox.target})`,
  handler: ({ line }, context) =>
    Effect.map(context.sandbox.exec(line, { timeout: "10 seconds" }), ({ exitCode, stdout }) =>
      JSON.stringify({ exitCode, stdout })
    )
})

const lines = [
  "mkdir -p src && echo 'export const answer = 42' > src/answer.ts && cat src/answer.ts",
  "cat .env",
  "touch /etc/outside",
  "echo 'exec evil' > .git/hooks/pre-commit"
]

export const main = async () => {
  Fs.mkdirSync("project/.git/hooks", { recursive: true })
  Fs.writeFileSync("project/.env", "KEY=sk-1234\n")
  const model = ScriptedModel.make([
    { calls: lines.map((line) => ({ tool: "shell", arguments: { line } })) },
    "The file is written."
  ])
  await using fermata = await createFermata({
    agents: [agent("coder", { tools: [shell] })],
    model: model.client,
    sandbox,
    workingDirectory: "project"
  })
  console.log(`Commands run on ${sandbox.target}.`)
  let run = await fermata.runPrompt("coder", "Write the answer to a file.")

  if (!isConfined) {
    console.log("Install bubblewrap (Linux) to confine them. Until then, each one asks:")
    assert(run.status === "interrupted" && run.interruptions[0]?._tag === "approval")
    for (const request of run.interruptions) if (request._tag === "approval") console.log(request.preview)
    // A person looks at the first, and decides about it alone.
    await fermata.decide(run.interruptions[0], approve())
    run = await fermata.resume(run.runId)
    assert.equal(run.status, "interrupted")
  } else {
    assert.equal(run.status, "completed")
    const results = model.requests
      .at(-1)!
      .messages.flatMap((message) => (message.role === "tool" ? message.content : []))
      .map((part) => (part._tag === "text" ? JSON.parse(part.text) : undefined))
    results.forEach((result, at) => console.log(lines[at], "->", result))
    assert.deepEqual(
      results.map(({ exitCode }) => exitCode === 0),
      [true, false, false, false]
    )
    assert.equal(Fs.existsSync("/etc/outside"), false)
  }
  assert.equal(Fs.readFileSync("project/src/answer.ts", "utf8"), "export const answer = 42\n")
}

if (import.meta.main) await main()
