/**
 * Checks that Mermaid can read the diagrams of the given pages: every fence marked `mermaid`. Prints a line for each that it cannot.
 */
import * as Fs from "node:fs"
import * as Path from "node:path"
import DOMPurify from "dompurify"
import { parse } from "../internal/markdown.ts"
import { root } from "../internal/run.ts"

// Outside a browser DOMPurify has no methods. Mermaid calls them for labels while it reads, and nothing is drawn here.
Object.assign(DOMPurify, { addHook: () => undefined, sanitize: (text: string) => text })
const { default: mermaid } = await import("mermaid")

for (const page of process.argv.slice(2)) {
  for (const { info, line, lines } of parse(Fs.readFileSync(Path.join(root, page), "utf8")).fences) {
    if (info !== "mermaid") continue
    try {
      await mermaid.parse(lines.join("\n"))
    } catch (error) {
      console.error(`${page}:${line}: Mermaid cannot read the diagram: ${(error as Error).message}`)
      process.exitCode = 1
    }
  }
}
