/**
 * Stores with one damaged row: each column of each table in turn, and deleted rows.
 */
import * as Fs from "node:fs"
import * as Path from "node:path"
import { casesOf, sampleOf } from "../../packages/node/test/sqlite/damage/cases.ts"
import { write } from "../../packages/node/test/sqlite/damage/story.ts"
import { complaintsOf, reference } from "../../packages/node/test/sqlite/damage/trial.ts"
import { fastDirectory } from "./sqliteDatabases.ts"

/** The outcome. */
interface Damaged {
  readonly violations: ReadonlyArray<string>
  /** Damaged stores on which every operation was performed. */
  readonly cases: number
  /** Ways to damage one row of the store. */
  readonly known: number
}

/** Damages copies of a store, `perColumn` in each column, and performs every operation of a program on each. */
export const damage = async (options: {
  readonly perColumn: number
  readonly seed: number
  /** Only the cases with this text in their names. */
  readonly only?: string | undefined
  readonly progress: (text: string) => void
}): Promise<Damaged> => {
  const directory = Fs.mkdtempSync(Path.join(fastDirectory, "fermata-damage-"))
  try {
    const filename = Path.join(directory, "runs.db")
    const undamaged = await reference(filename, await write(filename))
    const known = casesOf(filename)
    const { only, progress } = options
    const cases =
      only === undefined ? sampleOf(known, options) : known.filter(({ name }) => name.includes(only))
    const violations: Array<string> = []
    for (const [index, one] of cases.entries()) {
      for (const complaint of await complaintsOf(undamaged, one)) violations.push(`${one.name}: ${complaint}`)
      if ((index + 1) % 200 === 0) progress(`${index + 1} of ${cases.length}, ${violations.length} bad`)
    }
    return { violations, cases: cases.length, known: known.length }
  } finally {
    Fs.rmSync(directory, { recursive: true, force: true })
  }
}
