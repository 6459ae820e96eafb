/**
 * @title Editing files: an agent works on a real directory, and each change shows a diff before it is made
 *
 * The agent finds a mistake in a small project, reads the file and edits it. Reading needs no approval. The edit is held, with the exact place and
 * a unified diff. A person changes the same file before the approval is used, so the edit asks again with the new diff. A git hook is
 * asked about under a policy that lets all else run, because git runs it later. The model is scripted; the directory and its files are real.
 */
import assert from "node:assert/strict"
import {
  appendFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  writeFileSync
} from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { agent, approve, createFermata, workspaceTools } from "@fermata/node"
import { ScriptedModel } from "@fermata/node/testing"

export const main = async () => {
  const root = mkdtempSync(join(tmpdir(), "fermata-edit-"))
  mkdirSync(join(root, "src"))
  writeFileSync(join(root, "src/sum.ts"), "export const sum = (a: number, b: number) => a - b\n")
  writeFileSync(join(root, "README.md"), "# Sums\n")

  const call = (tool: string, args: object) => ({ calls: [{ tool, arguments: { ...args } }] })
  const model = ScriptedModel.make([
    call("search_files", { pattern: "sum", glob: "*.ts" }),
    call("read_file", { path: "src/sum.ts" }),
    call("edit_file", { path: "src/sum.ts", edits: [{ oldText: "a + b", newText: "a * b" }] }),
    call("edit_file", { path: "src/sum.ts", edits: [{ oldText: "a - b", newText: "a + b" }] }),
    "I have corrected the sum.",
    call("write_file", { path: "src/product.ts", content: "export {}\n" }),
    call("write_file", { path: ".git/hooks/pre-commit", content: "#!/bin/sh\nnpm test\n" }),
    "It asks me about the hook."
  ])
  const tools = workspaceTools({ root })
  await using fermata = await createFermata({ agents: [agent("editor", { tools })], model: model.client })

  // Searching and reading ran at once. An edit whose text is not in the file failed without asking.
  const held = await fermata.runPrompt("editor", "The sum is wrong.")
  const results = model.requests
    .at(-1)!
    .messages.flatMap(({ content, role }) => (role === "tool" ? [content] : []))
    .map((parts) => parts.map((part) => (part._tag === "text" ? part.text : "")).join(""))
  console.log(results.join("\n\n"))
  assert.match(results[2] ?? "", /oldText does not occur in the file\. The most similar line 1:/)

  // The edit is held, with its diff.
  assert(held.status === "interrupted" && held.interruptions[0]?._tag === "approval")
  console.log(`\n${held.interruptions[0].preview}`)
  assert.match(held.interruptions[0].preview ?? "", /\n\+export const sum = .* => a \+ b$/)

  // A person changes the file. The approval was for the file as it was: the call asks again.
  appendFileSync(join(root, "src/sum.ts"), "// Checked by Ana.\n")
  await fermata.decide(held.interruptions[0], approve())
  const again = await fermata.resume(held.runId)
  assert(again.status === "interrupted" && again.interruptions[0]?._tag === "approval")
  console.log(`\nAsked again: ${again.interruptions[0].reason}`)
  await fermata.decide(again.interruptions[0], approve())
  const done = await fermata.resume(held.runId)
  assert.equal(done.status, "completed")
  assert.equal(
    readFileSync(join(root, "src/sum.ts"), "utf8"),
    "export const sum = (a: number, b: number) => a + b\n// Checked by Ana.\n"
  )

  // A policy lets changes run unasked, but not to a file that other programs run.
  await fermata.runPrompt("editor", "Add products.", { policy: { mode: "all" } })
  assert(existsSync(join(root, "src/product.ts")))
  assert(!existsSync(join(root, ".git")))

  rmSync(root, { recursive: true })
}

if (import.meta.main) await main()
