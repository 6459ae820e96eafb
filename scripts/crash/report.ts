/**
 * Writes what the campaign found into the page about reliability, between its two markers.
 */
import * as Fs from "node:fs"
import * as Path from "node:path"
import { root, run } from "../internal/run.ts"

const begin = "<!-- campaign:begin -->"
const end = "<!-- campaign:end -->"

/** One line of the table. */
export type Figure = readonly [what: string, figure: string | number]

/** Replaces what is between the markers; without a page or markers, they are added at the end. */
export const write = async (figures: ReadonlyArray<Figure>, command: string, date: Date): Promise<string> => {
  const path = Path.join(root, "docs/reliability.md")
  const table = [
    begin,
    "",
    `Measured on ${date.toISOString().slice(0, 10)} with \`${command}\`.`,
    "",
    "| what | figure |",
    "|---|---|",
    ...figures.map(([what, figure]) => `| ${what} | ${figure.toLocaleString("en-US")} |`),
    "",
    end
  ].join("\n")
  const page = Fs.existsSync(path) ? Fs.readFileSync(path, "utf8") : "# Reliability\n\n"
  const [before, rest] = page.split(begin)
  const after = rest?.split(end)[1]
  Fs.writeFileSync(
    path,
    before === undefined || after === undefined
      ? `${page.trimEnd()}\n\n${table}\n`
      : `${before}${table}${after}`
  )
  await run("oxfmt", [path])
  return Path.relative(root, path)
}
