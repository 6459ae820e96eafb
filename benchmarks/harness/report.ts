/**
 * Results as tables: on the terminal, and in Markdown.
 */
import type { System } from "../System.ts"
import { mediansOf, type Result } from "./rounds.ts"
import type { Column, Workload } from "./Workload.ts"

const shown = (value: number | string | undefined, digits = 1): string =>
  value === undefined
    ? ""
    : typeof value === "string"
      ? value
      : value.toLocaleString("en", { minimumFractionDigits: digits, maximumFractionDigits: digits })

const times = (value: number): string => `${shown(value, value < 10 ? 2 : value < 100 ? 1 : 0)} ×`

const cell = ({ digits, key, ratio }: Column, { figures, ratios }: Result): string => {
  const value = shown(figures[key], digits)
  const quotient = ratios[key]
  return ratio === true && quotient !== undefined ? `${value} (${times(quotient)})` : value
}

const titleOf = (systems: ReadonlyArray<System>, name: string): string =>
  systems.find((system) => system.name === name)?.title ?? name

const failureOf = ({ cannot, failed }: Result): string => cannot ?? (failed ?? "").split("\n")[0]!

/** One line for each system and case, best first within a case. */
const rowsOf = (
  workload: Workload,
  results: ReadonlyArray<Result>,
  systems: ReadonlyArray<System>
): ReadonlyArray<ReadonlyArray<string>> =>
  workload.cases.flatMap((name) =>
    results
      .filter((result) => result.name === name && Object.keys(result.figures).length > 0)
      .toSorted((a, b) => Number(a.figures[workload.primary]) - Number(b.figures[workload.primary]))
      .map((result) => [
        name,
        titleOf(systems, result.system),
        ...workload.columns.map((column) => cell(column, result))
      ])
  )

/** The cases without figures, with the reason. */
const failuresOf = (
  results: ReadonlyArray<Result>,
  systems: ReadonlyArray<System>
): ReadonlyArray<string> => {
  const reasons = new Map<string, Array<string>>()
  for (const result of results) {
    const reason = failureOf(result)
    if (reason === "") continue
    const key = `${titleOf(systems, result.system)}: ${reason}`
    reasons.set(key, [...(reasons.get(key) ?? []), result.name])
  }
  return [...reasons].map(([reason, cases]) => `${reason} (${cases.join("; ")})`)
}

/** Each target, with the value that was reached. */
const targetsOf = (
  workload: Workload,
  results: ReadonlyArray<Result>
): ReadonlyArray<{ readonly says: string; readonly reached: number | undefined; readonly met: boolean }> =>
  workload.targets.map(({ most, reached, says }) => {
    const value = reached(mediansOf(results))
    return { says, reached: value, met: value !== undefined && value <= most }
  })

/** Fermata beside the floor and the best of the others, where both were measured. */
const besideBest = (
  workload: Workload,
  results: ReadonlyArray<Result>,
  systems: ReadonlyArray<System>
): ReadonlyArray<string> =>
  workload.cases.flatMap((name) => {
    const of = results.filter((result) => result.name === name)
    const figure = (result: Result) => Number(result.figures[workload.primary] ?? Number.NaN)
    const ours = of.find(({ system }) => system === "fermata")
    if (ours === undefined || !Number.isFinite(figure(ours))) return []
    const [best] = of
      .filter(({ system }) => system !== "fermata" && system !== "floor")
      .filter((result) => Number.isFinite(figure(result)))
      .toSorted((a, b) => figure(a) - figure(b))
    const toFloor = ours.ratios[workload.primary]
    const parts = [
      ...(toFloor === undefined ? [] : [`${times(toFloor)} the floor`]),
      ...(best === undefined
        ? []
        : [`${times(figure(ours) / figure(best))} the best peer (${titleOf(systems, best.system)})`])
    ]
    return parts.length === 0 ? [] : [`${name}: Fermata is ${parts.join(", ")}`]
  })

/** For the terminal. */
export const asText = (
  workload: Workload,
  results: ReadonlyArray<Result>,
  systems: ReadonlyArray<System>
): string => {
  const rows = [
    ["", "", ...workload.columns.map(({ title }) => title)],
    ...rowsOf(workload, results, systems)
  ]
  const widths = rows[0]!.map((_, at) => Math.max(...rows.map((row) => row[at]!.length)))
  const table = rows.map((row) =>
    row
      .map((text, at) => (at < 2 ? text.padEnd(widths[at]!) : text.padStart(widths[at]!)))
      .join("  ")
      .trimEnd()
  )
  const targets = targetsOf(workload, results)
    .filter(({ reached }) => reached !== undefined)
    .map(({ met, reached, says }) => `${met ? "met    " : "NOT MET"} ${says}: ${shown(reached, 2)}`)
  return [
    `\n${workload.title}`,
    ...table,
    ...failuresOf(results, systems),
    ...besideBest(workload, results, systems),
    ...targets
  ].join("\n")
}

const line = (cells: ReadonlyArray<string>): string =>
  `| ${cells.map((cell) => cell.replaceAll("|", "\\|")).join(" | ")} |`

/** For the documentation. */
export const asMarkdown = (
  workload: Workload,
  results: ReadonlyArray<Result>,
  systems: ReadonlyArray<System>
): string => {
  const heads = ["", "", ...workload.columns.map(({ title }) => title)]
  const failures = failuresOf(results, systems)
  const notes = results.flatMap(({ figures, system }) => {
    const note = Object.keys(figures).length === 0 ? "" : (workload.note?.(figures) ?? "")
    return note === "" ? [] : [`- ${titleOf(systems, system)}: ${note}`]
  })
  const targets = targetsOf(workload, results).map(
    ({ met, reached, says }) =>
      `- ${reached === undefined ? "Not measured" : met ? "Met" : "**Not met**"}: ${says}${reached === undefined ? "" : ` (${shown(reached, 2)})`}.`
  )
  return [
    line(heads),
    line(heads.map((_, at) => (at < 2 ? "---" : "---:"))),
    ...rowsOf(workload, results, systems).map(line),
    ...(notes.length === 0 ? [] : ["", ...notes]),
    ...(failures.length === 0 ? [] : ["", ...failures.map((failure) => `- ${failure}`)]),
    ...(targets.length === 0 ? [] : ["", ...targets])
  ].join("\n")
}
