/**
 * The agent of the demonstration, as each of its processes defines it: tools for the files and the commands of a real directory, and a scripted
 * model.
 */
import * as Fs from "node:fs"
import * as Path from "node:path"
import {
  agent,
  createFermata,
  type Fermata,
  machineSandbox,
  type Message,
  workspaceTools
} from "@fermata/node"
import { ScriptedModel } from "@fermata/node/testing"

const changes = "Runs are held at calls with effects.\nHeld runs survive a killed process.\n"

/** The command that publishes the page. It adds a line to a log, which shows how often it ran. */
const publish = "cp notes.md public/index.md && wc -l notes.md >> publish.log"

/** The directory in which the agent works. The store is beside it. */
const siteOf = (directory: string): string => Path.join(directory, "site")

/** Creates the files that the agent reads and changes. */
export const prepare = (directory: string): void => {
  const site = siteOf(directory)
  Fs.mkdirSync(Path.join(site, "public"), { recursive: true })
  Fs.writeFileSync(Path.join(site, "changes.txt"), changes)
  Fs.writeFileSync(Path.join(site, "notes.md"), "# Notes\n")
}

/** What the calls have left in the directory: evidence that is independent of the store. */
export const evidence = (directory: string) => {
  const linesOf = (name: string): ReadonlyArray<string> => {
    const path = Path.join(siteOf(directory), name)
    return Fs.existsSync(path) ? Fs.readFileSync(path, "utf8").split("\n").filter(Boolean) : []
  }
  return {
    notes: linesOf("notes.md").filter((line) => line.startsWith("- ")),
    published: linesOf("publish.log").length
  }
}

export const storeOf = (directory: string): string => Path.join(directory, "runs.db")

/** Fermata with the agent `editor`, on the directory's store. */
export const openEditor = (directory: string, owner: string): Promise<Fermata.Fermata> =>
  createFermata({
    agents: [agent("editor", { tools: workspaceTools() })],
    model: model.client,
    store: storeOf(directory),
    sandbox: machineSandbox({ workdir: siteOf(directory) }),
    owner,
    by: owner
  })

/** "Publish change 2." reads the changes, adds the second to the notes, publishes them, and reports the result. */
const model = ScriptedModel.make(({ messages, turn }) => {
  const last = messages.at(-1)
  const isDone = last?.role !== "tool" || last.outcome === "completed"
  if (!isDone) return `I have stopped: ${textOf(last)}`
  switch (turn) {
    case 1:
      return {
        text: "I look at what has changed.",
        calls: [{ tool: "read_file", arguments: { path: "changes.txt" } }]
      }
    case 2: {
      const number = /\d+/.exec(textOf(messages[0]))?.[0] ?? "1"
      const [, line = ""] = new RegExp(`^ *${number}\\t(.*)$`, "m").exec(textOf(last)) ?? []
      const edits = [{ oldText: "# Notes\n", newText: `# Notes\n\n- ${line}\n` }]
      return { calls: [{ tool: "edit_file", arguments: { path: "notes.md", edits } }] }
    }
    case 3:
      return { calls: [{ tool: "run_shell", arguments: { command: publish } }] }
    default:
      return "Done: the note is published."
  }
})

const textOf = (message: Message.Message | undefined): string =>
  message?.content.flatMap((part) => (part._tag === "text" ? [part.text] : [])).join("") ?? ""
