/**
 * Checks the directory of a SQLite store's contents: that its files are there as they were stored, and that it has no other ones. Processes
 * may store and delete contents meanwhile, so a finding counts only if the store still says so.
 */
import { createHash } from "node:crypto"
import { stat } from "node:fs/promises"
import type { DatabaseSync } from "node:sqlite"
import * as Effect from "effect/Effect"
import { fileOf, filesIn, idIn, readPart } from "../contentFiles.ts"
import { codeOf } from "../newFile.ts"
import { pieceBytes, sentence } from "./contents.ts"
import type { Findings } from "./findings.ts"
import { type Row, rowOf, rowsOf } from "./rows.ts"

/** Checks the files of all contents to which runs refer. */
export const checkFiles = (
  database: DatabaseSync,
  directory: string | undefined,
  found: Findings
): Effect.Effect<void> =>
  Effect.promise(() =>
    (directory === undefined ? missed(database, found) : checkDirectory(database, directory, found)).catch(
      (error: unknown) =>
        found.problem(
          `The directory of contents cannot be read (${codeOf(error) ?? String(error)}): give the store's own.`
        )
    )
  )

const missed = async (database: DatabaseSync, found: Findings): Promise<void> => {
  const count = Number(
    rowOf(database, "SELECT count(*) AS count FROM fermata_blobs WHERE filed = 1")?.["count"]
  )
  if (count > 0)
    found.problem(`${count} contents are in a directory, which was not checked: give it as \`contents\`.`)
}

const checkDirectory = async (database: DatabaseSync, directory: string, found: Findings): Promise<void> => {
  const storeId = rowOf(database, "SELECT store_id FROM fermata_blob_directory")?.["store_id"]
  if ((await idIn(directory)) !== storeId)
    return found.problem("The directory of contents belongs to another store: give the store's own.")
  // Before the rows are read: each file has a row when it is created.
  const names = await filesIn(directory)
  for (let last = -1; ;) {
    const page = Array.from(
      rowsOf(database, `${usedFiles} AND content.blob > ? GROUP BY content.blob LIMIT 100`, last)
    )
    for (const row of page) {
      if (await isAsStored(directory, row)) continue
      const [still] = rowsOf(
        database,
        `${usedFiles} AND content.blob = ? GROUP BY content.blob`,
        row["blob"] ?? null
      )
      if (still !== undefined) found.problem(sentence(still, "is missing in the directory, or damaged"))
    }
    if (page.length < 100) break
    last = Number(page.at(-1)?.["blob"])
  }
  for (const name of names) {
    const file = /^[0-9a-f]{12}$/.test(name) ? Number.parseInt(name, 16) : -1
    const row = rowOf(database, "SELECT blob FROM fermata_blobs WHERE blob = ? AND filed = 1", file)
    if (row === undefined && (file === -1 || (await isThere(fileOf(directory, file)))))
      found.problem(`The file ${name} in the directory of contents belongs to no content: delete it.`)
  }
}

const usedFiles = `SELECT content.blob, content.bytes, content.sha256, min(used.run_id) AS run_id, count(*) AS runs
  FROM fermata_blobs AS content JOIN fermata_blob_uses AS used ON used.sha256 = content.sha256 WHERE content.filed = 1`

const isAsStored = async (directory: string, { blob, bytes, sha256 }: Row): Promise<boolean> => {
  const path = fileOf(directory, Number(blob))
  const hash = createHash("sha256")
  const length = Number(bytes)
  for (let at = 0; at < length; at += pieceBytes) {
    const piece = await readPart(path, at, Math.min(pieceBytes, length - at))
    if (piece === undefined) return false
    hash.update(piece)
  }
  return hash.digest("hex") === sha256
}

const isThere = (path: string): Promise<boolean> =>
  stat(path).then(
    () => true,
    () => false
  )
