/**
 * The statements of a store on Fermata's tables, and SQLite's plans for them.
 */
import { DatabaseSync } from "node:sqlite"
import { vi } from "vitest"

/** The statements on Fermata's tables that are prepared while `work` runs. */
export const recording = async (work: () => Promise<void>): Promise<ReadonlySet<string>> => {
  const statements = new Set<string>()
  const prepare = DatabaseSync.prototype.prepare
  const spy = vi.spyOn(DatabaseSync.prototype, "prepare").mockImplementation(function (
    this: DatabaseSync,
    ...given
  ) {
    if (/^(SELECT|INSERT|UPDATE|DELETE|WITH)\b[^]*\bfermata_/.test(given[0].trim())) statements.add(given[0])
    return Reflect.apply(prepare, this, given) as ReturnType<typeof prepare>
  })
  try {
    await work()
  } finally {
    spy.mockRestore()
  }
  return statements
}

export const planOf = (database: DatabaseSync, statement: string): ReadonlyArray<string> => {
  const explained = database.prepare(`EXPLAIN QUERY PLAN ${statement}`)
  const parameters = statement.split("?").slice(1)
  return explained.all(...parameters.map(() => null)).map((step) => String(step["detail"]))
}
