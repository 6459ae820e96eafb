/**
 * Draws the main tables of `docs/performance.md` as SVG files in `docs/images`. The numbers are those of the page, so that a picture
 * always matches its table.
 */
import * as Fs from "node:fs"
import * as Path from "node:path"
import { systems } from "../systems.ts"

/** One figure of a workload's table. */
interface Plot {
  readonly file: string
  readonly workload: string
  readonly title: string
  readonly column: string
  readonly unit: string
  /** The case whose systems are compared as bars. Without it: a line for each system, over all cases. */
  readonly of?: string
}

const plots: ReadonlyArray<Plot> = [
  {
    file: "step.svg",
    workload: "step",
    title: "CPU time of a turn, in memory, in a run of 200 turns",
    column: "CPU, µs",
    unit: "µs",
    of: "200 turns"
  },
  {
    file: "stored.svg",
    workload: "stored",
    title: "CPU time of a stored turn, in a run of 200 turns",
    column: "CPU, µs",
    unit: "µs",
    of: "200 turns"
  },
  {
    file: "hold.svg",
    workload: "hold",
    title: "CPU time of a hold cycle, by the length of the conversation",
    column: "CPU, ms",
    unit: "ms"
  },
  {
    file: "fanout.svg",
    workload: "fanout",
    title: "Wall time of 10,000 runs at once, as a multiple of the ideal",
    column: "wall, × ideal",
    unit: "×",
    of: "10,000 runs"
  },
  {
    file: "heap.svg",
    workload: "fanout",
    title: "Heap of a run that waits for its model, of 10,000 at once",
    column: "heap per run, kB",
    unit: "kB",
    of: "10,000 runs"
  }
]

interface Row {
  readonly name: string
  readonly system: string
  readonly value: number
}

const root = Path.join(import.meta.dirname, "../..")

/** Writes the pictures of a page. */
export const writePlots = (page: string): void => {
  for (const [path, svg] of drawn(page)) {
    Fs.mkdirSync(Path.dirname(path), { recursive: true })
    Fs.writeFileSync(path, svg)
  }
}

/** The pictures that do not match the tables of the page. */
export const stalePlots = (page: string): ReadonlyArray<string> =>
  [...drawn(page)]
    .filter(([path, svg]) => !Fs.existsSync(path) || Fs.readFileSync(path, "utf8") !== svg)
    .map(([path]) => Path.relative(root, path))

const drawn = (page: string): ReadonlyMap<string, string> =>
  new Map(
    plots.map((plot) => {
      const rows = rowsOf(page, plot)
      return [
        Path.join(root, "docs/images", plot.file),
        plot.of === undefined ? lines(plot, rows) : bars(plot, rows)
      ]
    })
  )

const rowsOf = (page: string, { column, of, workload }: Plot): ReadonlyArray<Row> => {
  const table = page.slice(
    page.indexOf(`<!-- bench:${workload} -->`),
    page.indexOf(`<!-- /bench:${workload} -->`)
  )
  const [heads = [], , ...rows] = table
    .split("\n")
    .filter((line) => line.startsWith("|"))
    .map((line) => line.split("|").map((cell) => cell.trim()))
  const at = heads.indexOf(column)
  const found = rows
    .map((cells) => ({
      name: cells[1]!,
      system: cells[2]!,
      value: Number.parseFloat(cells[at]!.replaceAll(",", ""))
    }))
    .filter(({ name, value }) => Number.isFinite(value) && (of === undefined || name === of))
  if (found.length === 0) throw new Error(`docs/performance.md has no figures for ${workload}, ${column}.`)
  return found.toSorted((a, b) => a.value - b.value)
}

const width = 760
/** Where figures begin, and where the longest of them ends. */
const [left, right] = [200, 650]
const top = 66

const bars = (plot: Plot, rows: ReadonlyArray<Row>): string => {
  const height = top + rows.length * 26 + 34
  const scale = scaleOf(rows, left, right)
  return picture(plot, height, [
    ...scale.ticks.flatMap((tick) => [
      `<path class="grid" d="M${scale.at(tick)} ${top - 6}V${height - 32}"/>`,
      text(scale.at(tick), height - 14, shown(tick), "middle")
    ]),
    ...rows.flatMap(({ system, value }, index) => {
      const y = top + index * 26
      const kind = kindOf(system)
      return [
        text(left - 10, y + 14, system, "end", kind),
        `<rect class="${kind}" x="${left}" y="${y}" width="${round(scale.at(value) - left)}" height="18" rx="2"/>`,
        text(scale.at(value) + 7, y + 14, `${shown(value)} ${plot.unit}`, "start", kind)
      ]
    })
  ])
}

const lines = (plot: Plot, rows: ReadonlyArray<Row>): string => {
  const bottom = 400
  const names = [...new Set(rows.map(({ name }) => name))].toSorted((a, b) => sizeOf(a) - sizeOf(b))
  const sizes = names.map((name) => ({ name, system: "", value: sizeOf(name) }))
  const across = scaleOf(sizes, 80, 590, true)
  const up = scaleOf(rows, bottom, top)
  const series = [...new Set(rows.map(({ system }) => system))].map((system) => {
    const own = rows
      .filter((row) => row.system === system)
      .toSorted((a, b) => sizeOf(a.name) - sizeOf(b.name))
    return { system, points: own.map(({ name, value }) => [across.at(sizeOf(name)), up.at(value)] as const) }
  })
  // Keeps the labels a line apart.
  let last = Number.POSITIVE_INFINITY
  const labels = series
    .map(({ points, system }) => ({ system, y: points.at(-1)![1] + 4 }))
    .toSorted((a, b) => b.y - a.y)
    .map(({ system, y }) => {
      last = Math.min(y, last - 16)
      return text(602, last, system, "start", kindOf(system))
    })
  return picture(plot, bottom + 38, [
    ...up.ticks.flatMap((tick) => [
      `<path class="grid" d="M80 ${up.at(tick)}H590"/>`,
      text(70, up.at(tick) + 4, `${shown(tick)} ${plot.unit}`, "end")
    ]),
    ...names.map((name) => text(across.at(sizeOf(name)), bottom + 22, name, "middle")),
    ...series.map(
      ({ points, system }) =>
        `<polyline class="${kindOf(system)}" points="${points.map((point) => point.join(",")).join(" ")}"/>`
    ),
    ...labels
  ])
}

/** The number in a case's name. */
const sizeOf = (name: string): number => Number.parseInt(name.replaceAll(",", ""), 10)

/** A logarithmic scale from `from` to `to`, with a tick at each power of ten. */
const scaleOf = (rows: ReadonlyArray<Row>, from: number, to: number, isTight = false) => {
  const values = rows.map(({ value }) => Math.log10(value))
  const lowest = isTight ? Math.min(...values) : Math.floor(Math.min(...values) - 0.1)
  const highest = Math.max(...values)
  const at = (value: number) =>
    round(from + ((Math.log10(value) - lowest) / (highest - lowest)) * (to - from))
  const powers = Array.from(
    { length: Math.floor(highest) - Math.ceil(lowest) + 1 },
    (_, index) => Math.ceil(lowest) + index
  )
  return { at, ticks: powers.map((power) => 10 ** power) }
}

const round = (value: number): number => Math.round(value * 10) / 10

const shown = (value: number): string =>
  value < 1000
    ? value.toLocaleString("en", { maximumSignificantDigits: 3 })
    : Math.round(value).toLocaleString("en")

const titles = new Map(systems.map(({ name, title }) => [title, name]))

const kindOf = (system: string): string => {
  const name = titles.get(system)
  return name === "fermata" ? "ours" : name === "floor" ? "floor" : "peer"
}

const escaped = (value: string): string => value.replaceAll("&", "&amp;").replaceAll("<", "&lt;")

const text = (x: number, y: number, value: string, anchor: string, kind = "note"): string =>
  `<text class="${kind}" x="${x}" y="${round(y)}" text-anchor="${anchor}">${escaped(value)}</text>`

/** A background of its own, so that the picture can be read on any page; the colours follow the reader's scheme. */
const style = `
text { font: 13px system-ui, "Segoe UI", Helvetica, Arial, sans-serif; fill: #57606a }
text.head { font-size: 15px; font-weight: 600; fill: #1f2328 }
text.ours { font-weight: 700; fill: #0969da }
.card { fill: #ffffff; stroke: #d0d7de }
.grid { stroke: #e4e8ec; fill: none }
rect.peer { fill: #b6bec7 }
rect.ours { fill: #0969da }
rect.floor { fill: none; stroke: #8c959f; stroke-dasharray: 3 3 }
polyline { fill: none; stroke: #a8b1bb; stroke-width: 1.5 }
polyline.ours { stroke: #0969da; stroke-width: 3 }
polyline.floor { stroke-dasharray: 3 3 }
@media (prefers-color-scheme: dark) {
  text { fill: #9198a1 }
  text.head { fill: #f0f6fc }
  text.ours { fill: #4493f8 }
  .card { fill: #0d1117; stroke: #30363d }
  .grid { stroke: #252b33 }
  rect.peer { fill: #4b535d }
  rect.ours { fill: #4493f8 }
  rect.floor { stroke: #6e7681 }
  polyline { stroke: #59626d }
  polyline.ours { stroke: #4493f8 }
}
`

const picture = ({ title }: Plot, height: number, elements: ReadonlyArray<string>): string =>
  [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" width="${width}" height="${height}" role="img" aria-label="${escaped(title)}">`,
    `<style>${style}</style>`,
    `<rect class="card" x="0.5" y="0.5" width="${width - 1}" height="${height - 1}" rx="6"/>`,
    text(20, 28, title, "start", "head"),
    text(20, 47, "Logarithmic scale; less is better. The floor is the same work written by hand.", "start"),
    ...elements,
    "</svg>\n"
  ].join("\n")
