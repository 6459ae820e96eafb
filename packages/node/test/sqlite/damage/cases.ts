/**
 * Every way in which one row of a store can be damaged: each column of each table in turn, and the row itself.
 */
import { DatabaseSync, type SQLInputValue } from "node:sqlite"

/** A row, its damage, and the run that it belongs to. */
export interface Case {
  readonly table: string
  readonly rowid: number
  /** `undefined` where the row is deleted. */
  readonly column?: string
  readonly name: string
  readonly sql: string
  readonly values: ReadonlyArray<SQLInputValue>
  /** The root run. */
  readonly runId?: string
  readonly grantId?: string
}

/** The values that a column is set to, by name: SQL expressions over the old value. */
const values: ReadonlyArray<readonly [string, string]> = [
  ["NULL", "NULL"],
  ["an empty text", "''"],
  ["a text", "'not an id'"],
  ["an id that does not exist", "'absent'"],
  ["a small number", "3"],
  ["a negative number", "-7"],
  ["a fraction", "1.5"],
  ["a huge number", "9223372036854775807"],
  ["a number beyond all times", "1e300"],
  ["a blob", "x'00ff41'"],
  ["half of its text", "substr(VALUE, 1, length(VALUE) / 2)"],
  ["an empty object", "'{}'"],
  ["an empty list", "'[]'"],
  ["a list of another shape", '\'[{"_tag":"run.held"},7]\''],
  ["an object of another shape", '\'{"_tag":"approve","at":"x"}\''],
  ["the text null", "'null'"],
  ["another status", "CASE VALUE WHEN 'completed' THEN 'held' ELSE 'completed' END"],
  ["a status of work", "'running'"],
  ["a status of requests", "CASE VALUE WHEN 'open' THEN 'decided' ELSE 'open' END"],
  ["a status of mail", "CASE VALUE WHEN 'waiting' THEN 'journaled' ELSE 'waiting' END"],
  ["deeply nested text", "replace(hex(zeroblob(5000)), '00', '[')"]
]

/** All cases for every row of every table, except those that leave a row unchanged or that the table refuses. */
export const casesOf = (filename: string): ReadonlyArray<Case> => {
  const database = new DatabaseSync(filename)
  const cases: Array<Case> = []
  const namesIn = (sql: string) =>
    database
      .prepare(sql)
      .all()
      .map(({ name }) => String(name))
  const tables = namesIn(
    "SELECT name FROM sqlite_schema WHERE type = 'table' AND name LIKE 'fermata_%' ORDER BY name"
  )
  for (const table of tables) {
    const columns = namesIn(`SELECT name FROM pragma_table_info('${table}')`)
    const hasRun = columns.includes("run_id")
    const key = !isClustered(database, table) ? "rowid" : columns.includes("sha256") ? "sha256" : "message_id"
    const rows = database
      .prepare(
        `SELECT ${key} AS key ${hasRun ? ", run_id" : ""} ${table === "fermata_grants" ? ", grant_id" : ""} FROM ${table}`
      )
      .all()
    for (const [rowid, row] of rows.entries()) {
      const of = {
        table,
        rowid,
        values: [row["key"]!],
        ...(hasRun ? { runId: String(row["run_id"]) } : {}),
        ...("grant_id" in row ? { grantId: String(row["grant_id"]) } : {})
      }
      const where = `WHERE ${key} = ?`
      const place = `${table}${hasRun ? ` of ${String(row["run_id"])}` : ""}`
      cases.push({ ...of, name: `${place}: a row is deleted`, sql: `DELETE FROM ${table} ${where}` })
      for (const column of columns) {
        for (const [what, expression] of values) {
          if (what.includes("status") && column !== "status") continue
          const sql = `UPDATE ${table} SET ${column} = ${expression.replaceAll("VALUE", column)} ${where}`
          const changed = `SELECT count(*) AS count FROM ${table} ${where} AND ${column} IS NOT (${expression.replaceAll("VALUE", column)})`
          const isChanged = database.prepare(changed).get(row["key"]!)?.["count"] !== 0
          if (!isChanged || !isAccepted(database, sql, row["key"]!)) continue
          cases.push({ ...of, column, name: `${place}: ${column} is ${what}`, sql })
        }
      }
    }
  }
  database.close()
  return cases
}

const isClustered = (database: DatabaseSync, table: string): boolean =>
  /WITHOUT ROWID/.test(
    String(database.prepare("SELECT sql FROM sqlite_schema WHERE name = ?").get(table)?.["sql"])
  )

const isAccepted = (database: DatabaseSync, sql: string, key: SQLInputValue): boolean => {
  database.exec("BEGIN")
  try {
    database.prepare(sql).run(key)
    return true
  } catch {
    return false
  } finally {
    database.exec("ROLLBACK")
  }
}

/** The runs that a damaged row may stop: its own, and those that build on it. */
export const descendants = (filename: string, runId: string): ReadonlySet<string> => {
  const database = new DatabaseSync(filename)
  const rows = database
    .prepare(
      `WITH RECURSIVE line (run_id) AS (SELECT ?1 UNION SELECT run.run_id FROM line JOIN fermata_runs AS run
        ON run.parent_run_id = line.run_id) SELECT run_id FROM line`
    )
    .all(runId)
  database.close()
  return new Set(rows.map(({ run_id }) => String(run_id)))
}

/** Some cases of each column and of the deleted rows of each table, others for each seed. */
export const sampleOf = (
  cases: ReadonlyArray<Case>,
  { perColumn, seed }: { readonly perColumn: number; readonly seed: number }
): ReadonlyArray<Case> => {
  const columns = Map.groupBy(cases, ({ column, table }) => `${table} ${column}`)
  return [...columns.values()].flatMap((group, index) =>
    Array.from({ length: Math.min(group.length, perColumn) }, (_, place) => {
      // Large primes: cases that lie beside each other are alike.
      const at = (seed * 7919 + index * 104_729 + place * 15_485_863) % group.length
      return group[at]
    }).flatMap((one) => one ?? [])
  )
}
