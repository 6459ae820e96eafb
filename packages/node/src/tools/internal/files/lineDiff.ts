/**
 * The difference of two lists of lines: what has to be removed and added, in the fewest steps (Myers, "An O(ND) Difference Algorithm and Its
 * Variations", 1986). Lists that differ too much are shown as removed and added as a whole, so that no text takes long.
 */

/** A line that both texts have, or that one of them has. */
export interface LineEdit {
  readonly kind: "same" | "removed" | "added"
  readonly line: string
}

/** How many lines may be removed and added before the rest counts as replaced. */
const mostSteps = 1_500

/** The edits that make `after` of `before`. */
export const lineDiff = (
  before: ReadonlyArray<string>,
  after: ReadonlyArray<string>
): ReadonlyArray<LineEdit> => {
  let start = 0
  while (start < before.length && start < after.length && before[start] === after[start]) start += 1
  let end = 0
  while (
    end < before.length - start &&
    end < after.length - start &&
    before[before.length - 1 - end] === after[after.length - 1 - end]
  )
    end += 1
  const same = (line: string): LineEdit => ({ kind: "same", line })
  return [
    ...before.slice(0, start).map(same),
    ...middle(before.slice(start, before.length - end), after.slice(start, after.length - end)),
    ...before.slice(before.length - end).map(same)
  ]
}

const middle = (before: ReadonlyArray<string>, after: ReadonlyArray<string>): ReadonlyArray<LineEdit> => {
  const replaced = (): ReadonlyArray<LineEdit> => [
    ...before.map((line): LineEdit => ({ kind: "removed", line })),
    ...after.map((line): LineEdit => ({ kind: "added", line }))
  ]
  if (before.length === 0 || after.length === 0) return replaced()
  const trace = furthest(before, after)
  return trace === undefined ? replaced() : walkBack(before, after, trace)
}

/** For each number of steps, how far into `before` each diagonal reaches; `undefined` if there are too many steps. */
const furthest = (
  before: ReadonlyArray<string>,
  after: ReadonlyArray<string>
): ReadonlyArray<Int32Array> | undefined => {
  const most = Math.min(before.length + after.length, mostSteps)
  const reached = new Int32Array(2 * most + 2)
  const trace: Array<Int32Array> = []
  for (let steps = 0; steps <= most; steps += 1) {
    for (let diagonal = -steps; diagonal <= steps; diagonal += 2) {
      let x = comesFromAbove(reached, most, steps, diagonal)
        ? reached[most + diagonal + 1]!
        : reached[most + diagonal - 1]! + 1
      while (x < before.length && x - diagonal < after.length && before[x] === after[x - diagonal]) x += 1
      reached[most + diagonal] = x
      if (x >= before.length && x - diagonal >= after.length) {
        trace.push(reached.slice(most - steps, most + steps + 1))
        return trace
      }
    }
    trace.push(reached.slice(most - steps, most + steps + 1))
  }
  return undefined
}

/** Whether the furthest path to a diagonal adds a line, instead of removing one. */
const comesFromAbove = (reached: Int32Array, zero: number, steps: number, diagonal: number): boolean =>
  diagonal === -steps || (diagonal !== steps && reached[zero + diagonal - 1]! < reached[zero + diagonal + 1]!)

const walkBack = (
  before: ReadonlyArray<string>,
  after: ReadonlyArray<string>,
  trace: ReadonlyArray<Int32Array>
): ReadonlyArray<LineEdit> => {
  const edits: Array<LineEdit> = []
  let x = before.length
  let y = after.length
  for (let steps = trace.length - 1; steps > 0; steps -= 1) {
    const reached = trace[steps - 1]!
    const diagonal = x - y
    // The row of a number of steps begins at its diagonal -steps.
    const zero = steps - 1
    const isAdded =
      diagonal === -steps ||
      (diagonal !== steps && reached[zero + diagonal - 1]! < (reached[zero + diagonal + 1] ?? -1))
    const from = isAdded ? diagonal + 1 : diagonal - 1
    const fromX = reached[zero + from]!
    const fromY = fromX - from
    while (x > fromX && y > fromY && before[x - 1] === after[y - 1]) {
      edits.push({ kind: "same", line: before[x - 1]! })
      x -= 1
      y -= 1
    }
    edits.push(isAdded ? { kind: "added", line: after[y - 1]! } : { kind: "removed", line: before[x - 1]! })
    x = fromX
    y = fromY
  }
  while (x > 0 && y > 0) {
    edits.push({ kind: "same", line: before[x - 1]! })
    x -= 1
    y -= 1
  }
  return edits.reverse()
}
