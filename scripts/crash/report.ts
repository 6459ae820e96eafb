/**
 * Writes the results of the campaign into the page about reliability, between its two markers: one table, a column for each store.
 * Figures that were not measured this time stay unchanged.
 */
import * as Fs from "node:fs"
import * as Path from "node:path"
import { root, run } from "../internal/run.ts"

const begin = "<!-- campaign:begin -->"
const end = "<!-- campaign:end -->"

const stores = ["SQLite", "Postgres"] as const
export type StoreName = (typeof stores)[number]

/** Sorts by the part with which a line's name begins. */
const parts = ["sweep", "seeds", "meetings", "mutants", "damage", "processes", "restarts"]
const byPart = ([one]: readonly [string, unknown], [other]: readonly [string, unknown]): number =>
  parts.indexOf(one.split(":")[0] ?? "") - parts.indexOf(other.split(":")[0] ?? "")

/** One line of the table, and the store on which it was measured. */
export type Figure = readonly [what: string, store: StoreName, figure: string | number]

/** Puts figures into the table. Without a page or markers, the table is added at the end. */
export const write = async (figures: ReadonlyArray<Figure>, command: string, date: Date): Promise<string> => {
  const path = Path.join(root, "docs/reliability.md")
  const page = Fs.existsSync(path) ? Fs.readFileSync(path, "utf8") : "# Reliability\n\n"
  const [before = "", rest] = page.includes(begin) ? page.split(begin) : [`${page.trimEnd()}\n\n`, end]
  const [old = "", after = "\n"] = rest?.split(end) ?? []

  const rows = new Map<string, Map<StoreName, string>>()
  const set = (what: string, store: StoreName, figure: string) =>
    rows.set(what, (rows.get(what) ?? new Map()).set(store, figure))
  for (const line of old.split("\n")) {
    const [, what = "", ...cells] = line.split("|").map((cell) => cell.trim())
    if (what === "" || what === "what" || what.startsWith("-")) continue
    for (const [index, store] of stores.entries()) set(what, store, cells[index] ?? "")
  }
  for (const [what, store, figure] of figures) set(what, store, figure.toLocaleString("en-US"))

  const commands = new Map(
    [...old.matchAll(/^- `(.*)`, (\S+)$/gm)].map(([, command = "", day = ""]) => [command, day])
  )
  commands.delete(command)
  commands.set(command, date.toISOString().slice(0, 10))

  const table = [
    begin,
    "",
    `| what | ${stores.join(" | ")} |`,
    "|---|---|---|",
    ...[...rows]
      .toSorted(byPart)
      .map(([what, cells]) => `| ${what} | ${stores.map((store) => cells.get(store) ?? "").join(" | ")} |`),
    "",
    "Measured with:",
    "",
    ...[...commands].map(([command, day]) => `- \`${command}\`, ${day}`),
    "",
    end
  ].join("\n")
  Fs.writeFileSync(path, before + table + after)
  await run("oxfmt", [path])
  return Path.relative(root, path)
}
