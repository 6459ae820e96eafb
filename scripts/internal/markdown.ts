/**
 * Splits a Markdown page into its code fences and its prose, and finds the pages in doc comments; shared by the checks that run fences
 * and follow links.
 */
interface Fence {
  /** The info string of the fence: `ts run`. */
  readonly info: string
  /** The line of the opening backticks, from 1. */
  readonly line: number
  readonly lines: ReadonlyArray<string>
}

/** In the prose, fenced lines are blank. A fence that is not closed extends to the end of the page, as in Markdown. */
export const parse = (text: string): { readonly fences: ReadonlyArray<Fence>; readonly prose: string } => {
  const fences: Array<Fence> = []
  const prose: Array<string> = []
  let open:
    | { readonly mark: string; readonly info: string; readonly line: number; readonly lines: Array<string> }
    | undefined
  for (const [index, line] of text.split("\n").entries()) {
    const [, mark, info] = /^ {0,3}(`{3,}|~{3,})\s*(.*)$/.exec(line) ?? []
    if (open === undefined) {
      prose.push(mark === undefined ? line : "")
      if (mark !== undefined) open = { mark, info: info?.trim() ?? "", line: index + 1, lines: [] }
    } else {
      prose.push("")
      if (mark?.startsWith(open.mark) === true && info === "") {
        fences.push(open)
        open = undefined
      } else open.lines.push(line)
    }
  }
  if (open !== undefined) fences.push(open)
  return { fences, prose: prose.join("\n") }
}

/** The doc comments of a TypeScript source as one page. Text stays on the line it has in the source; all other lines are empty. */
export const docComments = (source: string): string => {
  let isComment = false
  return source
    .split("\n")
    .map((line) => {
      if (!isComment) {
        isComment = /^\s*\/\*\*(?!.*\*\/)/.test(line)
        return ""
      }
      isComment = !/\*\/\s*$/.test(line)
      return isComment ? line.replace(/^\s*\* ?/, "") : ""
    })
    .join("\n")
}
