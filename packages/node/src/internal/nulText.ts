/**
 * Texts with NUL characters in a database that refuses them.
 *
 * Postgres refuses U+0000 in a text. It is written as U+FDD0 and a digit, and read back as U+0000. U+FDD0 is a noncharacter that Unicode
 * reserves for such internal uses; it is escaped in the same way.
 */
import * as Effect from "effect/Effect"
import type { Connection } from "effect/sql/SqlConnection"
import * as Stream from "effect/Stream"

/** Wraps a connection: it escapes every text that it writes, and unescapes every text in the rows that it reads. */
export const withNulText = (connection: Connection): Connection => ({
  execute: (sql, params, transform) =>
    Effect.map(connection.execute(sql, params.map(toDatabase), transform), fromRows),
  executeUnprepared: (sql, params, transform) =>
    Effect.map(connection.executeUnprepared(sql, params.map(toDatabase), transform), fromRows),
  executeRaw: (sql, params) => connection.executeRaw(sql, params.map(toDatabase)),
  executeStream: (sql, params, transform) =>
    Stream.map(connection.executeStream(sql, params.map(toDatabase), transform), fromRow),
  executeValues: (sql, params) =>
    Effect.map(connection.executeValues(sql, params.map(toDatabase)), fromValueRows),
  executeValuesUnprepared: (sql, params) =>
    Effect.map(connection.executeValuesUnprepared(sql, params.map(toDatabase)), fromValueRows)
})

const mark = "\uFDD0"

const toDatabase = (value: unknown): unknown =>
  typeof value === "string" && (value.includes("\0") || value.includes(mark))
    ? value.replaceAll(/[\0\uFDD0]/g, (character) => mark + (character === mark ? "1" : "0"))
    : value

const fromDatabase = (value: unknown): unknown =>
  typeof value === "string" && value.includes(mark)
    ? value.replaceAll(/\uFDD0([01])/g, (_, digit) => (digit === "1" ? mark : "\0"))
    : value

const fromRows = (rows: ReadonlyArray<object>): ReadonlyArray<object> =>
  rows.map((row) => (Object.values(row).some(isMarked) ? fromRow(row) : row))

const isMarked = (value: unknown): boolean => typeof value === "string" && value.includes(mark)

const fromRow = (row: object) =>
  Object.fromEntries(Object.entries(row).map(([name, value]) => [name, fromDatabase(value)]))

const fromValueRows = (rows: ReadonlyArray<ReadonlyArray<unknown>>) =>
  rows.map((row) => row.map(fromDatabase))
