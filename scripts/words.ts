/**
 * Keeps words out of prose that hide the subject of a sentence: counts them in comments, test titles and Markdown, prints the place
 * of each, and fails when they are more than 8 in 10,000 words. `npm run words`; `npm run words -- packages/node` counts in a folder.
 */
import "./internal/help.ts"
import * as Fs from "node:fs"
import * as Path from "node:path"
import { root } from "./internal/run.ts"

const most = 8
const marker = /\b(somebody|nobody|whoever|whatever|told)\b/gi
const word = /\p{L}[\p{L}\p{N}'’]*/gu

/** Block comments and comments behind code, both as this repository writes them, and the titles of tests. */
const comment = /^[ \t]*\/\*[^]*?\*\/|(?<=^|\s)\/\/ .*/gm
const title = /\b(?:it|test|describe)(?:\.\w+)*(?:\([^()]*\))?\(\s*(["'`])(?:\\.|(?!\1)[^\\])*\1/g

/** The prose of a file, each piece with the line on which it begins. */
const proseOf = (file: string, text: string): ReadonlyArray<readonly [line: number, prose: string]> => {
  if (file.endsWith(".md")) return [[1, text]]
  return [...text.matchAll(comment), ...text.matchAll(title)].map(
    (found) => [lineAt(text, found.index), found[0]] as const
  )
}

const lineAt = (text: string, index: number) => text.slice(0, index).split("\n").length

const folders = process.argv.slice(2)
const skipped = new Set(["node_modules", "dist", ".tmp", ".git"])
const files = (folders.length === 0 ? [".", ".changeset"] : folders).flatMap((folder) =>
  Fs.globSync(`${folder}/**/*.{ts,md}`, { cwd: root, exclude: (name) => skipped.has(Path.basename(name)) })
)

let words = 0
let markers = 0
for (const file of files) {
  for (const [line, prose] of proseOf(file, Fs.readFileSync(Path.join(root, file), "utf8"))) {
    words += prose.match(word)?.length ?? 0
    for (const found of prose.matchAll(marker)) {
      markers += 1
      console.log(`${file}:${line + lineAt(prose, found.index) - 1}: ${found[0]}`)
    }
  }
}
const rate = (markers / words) * 10_000
console.log(`${rate.toFixed(1)} in 10,000 words (${markers} of ${words}); at most ${most}`)
if (rate > most) process.exitCode = 1
