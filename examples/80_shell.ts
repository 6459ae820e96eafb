/**
 * @title Commands: an agent runs them where they are confined, and asks about the others
 *
 * The sandbox confines commands to a directory where bubblewrap works; elsewhere, each command asks. The agent reads a file, starts a program
 * in the background, and wants to delete something: the run is held, and a person sees the exact command and where it would run. The program
 * ends with the run's runtime. The model is scripted.
 */
import assert from "node:assert/strict"
import { mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { agent, approve, createFermata, deny, machineSandbox, shellTools } from "@fermata/node"
import { ScriptedModel } from "@fermata/node/testing"

export const main = async () => {
  const workdir = mkdtempSync(join(tmpdir(), "fermata-shell-"))
  writeFileSync(join(workdir, "notes.txt"), "ship it\n")

  const sandbox = machineSandbox({ workdir })
  const isConfined = sandbox.capabilities.has("isolated")
  const tools = shellTools({
    // A hint: what a command can do is decided by the sandbox.
    rules: [{ decision: "deny", argv: ["git", "push", "**"], reason: "releases are made by CI" }]
  })
  const run = (command: string, background = false) => ({
    calls: [{ tool: "run_shell", arguments: { command, background } }]
  })
  const model = ScriptedModel.make([
    run("cat notes.txt; ls missing"),
    run("true && git push --force"),
    run("echo listening; while :; do sleep 0.1; done", true),
    run("rm notes.txt"),
    "The notes stay."
  ])
  await using fermata = await createFermata({
    agents: [agent("developer", { tools })],
    model: model.client,
    sandbox,
    store: ":memory:"
  })
  const asked: Array<string> = []
  let result = await fermata.runPrompt("developer", "Clean up")
  while (result.status === "interrupted") {
    const [request] = result.interruptions
    assert(request?._tag === "approval")
    asked.push(request.preview ?? "")
    console.log(`${request.preview}\n-> ${request.risk}`)
    const isDeletion = request.preview?.endsWith("rm notes.txt") === true
    await fermata.decide(request, isDeletion ? deny("Keep the notes.") : approve())
    result = await fermata.resume(result.runId)
  }
  assert.equal(result.status, "completed")

  // Where commands are confined, the one that only reads was not asked about.
  assert.equal(asked.length, isConfined ? 2 : 3)
  assert.match(
    asked.at(-1) ?? "",
    /^Runs on: this machine, .*\nStarts in: .*\nIs stopped after 2 min\.\nCommand:\nrm notes\.txt$/
  )
  const results = model.requests.at(-1)!.messages.filter(({ role }) => role === "tool")
  const [read, pushed, started] = results.map(({ content }) =>
    content.map((part) => (part._tag === "text" ? part.text : "")).join("")
  )
  assert.match(read ?? "", /^exit code [12] after .*\nstdout:\nship it\nstderr:\n/)
  assert.match(pushed ?? "", /was not run.* releases are made by CI/)
  assert.match(started ?? "", /: running for .*\noutput, characters 0 to 10 of 10:\nlistening\n/)
  // The close of the runtime stops the program in the background.
  await fermata.close()
  rmSync(workdir, { recursive: true })
}

if (import.meta.main) await main()
