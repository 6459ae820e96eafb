/**
 * An agent that writes a file, and a process that dies around the write. As a program, it approves the call and is killed before the body, or
 * after it and before its result is recorded.
 */
import { agent, approve, createFermata, FileTools, type Tool } from "@fermata/node"
import { ScriptedModel } from "@fermata/node/testing"
import * as Effect from "effect/Effect"

export type Writing = "write_file" | "edit_file"

/** The calls, whose file is `notes.txt`. */
const calls = {
  write_file: { path: "notes.txt", content: "one\ntwo\n" },
  edit_file: { path: "notes.txt", edits: [{ oldText: "one\n", newText: "one\ntwo\n" }] }
} as const

/** A Fermata on a store, whose agent makes the call in a directory. `around` changes the tool. */
export const openWriter = (
  {
    directory,
    store,
    writing
  }: { readonly directory: string; readonly store: string; readonly writing: Writing },
  around: (tool: Tool.Tool) => Tool.Tool = (tool) => tool
) => {
  const options = { root: directory }
  const model = ScriptedModel.make(({ messages, turn }) => {
    if (turn === 1) return { calls: [{ tool: writing, arguments: calls[writing] }] }
    const last = messages.at(-1)
    return last?.content.map((part) => (part._tag === "text" ? part.text : "")).join("") ?? ""
  })
  return createFermata({
    agents: [
      agent("writer", { tools: [around(FileTools.writeFile(options)), around(FileTools.editFile(options))] })
    ],
    model: model.client,
    store,
    leaseTtl: "1 minute",
    by: "tester"
  })
}

/** A tool whose process is killed before its body, or after it. */
const dying =
  (when: string) =>
  (tool: Tool.Tool): Tool.Tool => {
    const die = Effect.callback<never>(() => void process.kill(process.pid, "SIGKILL"))
    const { handler } = tool.options
    return {
      ...tool,
      options: {
        ...tool.options,
        handler: (args, context) =>
          when === "before" ? die : Effect.andThen(handler(args, context) as Effect.Effect<unknown>, die)
      }
    }
  }

if (import.meta.main) {
  const [store = "", directory = "", writing = "", when = ""] = process.argv.slice(2)
  const fermata = await openWriter({ store, directory, writing: writing as Writing }, dying(when))
  const run = await fermata.runPrompt("writer", "Write", { runId: "w" })
  if (run.status === "interrupted") await fermata.decide(run.interruptions[0]!, approve())
  await fermata.resume("w")
}
