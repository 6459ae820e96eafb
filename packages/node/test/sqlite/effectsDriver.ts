/**
 * Effect's own SQLite driver, on an Effect whose modules have lost `unstable` from their names since the driver was published.
 */
import { registerHooks } from "node:module"
import type * as Layer from "effect/Layer"
import type { SqlClient } from "effect/sql/SqlClient"

registerHooks({
  resolve: (specifier, context, next) => next(specifier.replace(/^effect\/unstable\//, "effect/"), context)
})

interface Driver {
  readonly layer: (options: { readonly filename: string }) => Layer.Layer<SqlClient>
}

// Not a literal: the types of the package have the old names, too.
const name: string = "@effect/sql-sqlite-node/SqliteClient"

export const driver: Driver = await import(name)
