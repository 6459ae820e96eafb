/**
 * The agent of the demonstration, as each of its processes defines it: a tool that reads, a tool that writes into a real directory,
 * and a scripted model.
 */
import * as Fs from "node:fs"
import * as Path from "node:path"
import { agent, createFermata, type Fermata, type Message, Schema, tool } from "@fermata/node"
import { ScriptedModel } from "@fermata/node/testing"

const changes = "Runs are held at calls with effects.\nHeld runs survive a killed process.\n"

/** Creates the files that the tools read and write. */
export const prepare = (directory: string): void => {
  Fs.mkdirSync(Path.join(directory, "site"))
  Fs.writeFileSync(Path.join(directory, "changes.txt"), changes)
}

/** Every published line: evidence of the tool calls that is independent of the store. */
export const published = (directory: string): ReadonlyArray<string> =>
  Fs.readdirSync(Path.join(directory, "site")).flatMap((page) =>
    Fs.readFileSync(Path.join(directory, "site", page), "utf8")
      .trimEnd()
      .split("\n")
  )

export const storeOf = (directory: string): string => Path.join(directory, "runs.db")

/** Fermata with the agent `editor`, on the directory's store. */
export const openEditor = (directory: string, owner: string): Promise<Fermata.Fermata> => {
  const readChanges = tool("read_changes", {
    description: "Reads what has changed, one change a line",
    safety: "readOnly",
    handler: () => Fs.readFileSync(Path.join(directory, "changes.txt"), "utf8")
  })
  const publishNote = tool("publish_note", {
    description: "Adds a line to a page of the site",
    parameters: Schema.Struct({
      page: Schema.String.check(Schema.isPattern(/^\w[\w.-]*$/)),
      text: Schema.String
    }),
    risk: "Everybody can read the site.",
    handler: ({ page, text }) => {
      // O_APPEND: one line per execution of this body, in any process.
      Fs.appendFileSync(Path.join(directory, "site", page), `- ${text.replaceAll("\n", " ")}\n`)
      return `added to ${page}`
    }
  })
  return createFermata({
    agents: [agent("editor", { tools: [readChanges, publishNote] })],
    model: model.client,
    store: storeOf(directory),
    owner,
    by: owner
  })
}

/** "Publish change 2." reads the changes, publishes the second, and reports the result. */
const model = ScriptedModel.make(({ messages, turn }) => {
  if (turn === 1) return { text: "I look at what has changed.", calls: [{ tool: "read_changes" }] }
  const last = messages.at(-1)
  if (turn === 2) {
    const number = Number(/\d+/.exec(textOf(messages[0]))?.[0] ?? 1)
    const text = textOf(last).split("\n")[number - 1] ?? ""
    return { calls: [{ tool: "publish_note", arguments: { page: "notes.md", text } }] }
  }
  return last?.role === "tool" && last.outcome === "completed"
    ? `Done: ${textOf(last)}.`
    : `I have not published it: ${textOf(last)}`
})

const textOf = (message: Message.Message | undefined): string =>
  message?.content.flatMap((part) => (part._tag === "text" ? [part.text] : [])).join("") ?? ""
