import * as Effect from "effect/Effect"
import { checkAllSuite } from "../../../sdk/test/promise/checkAllSuite.ts"
import * as PostgresStore from "../../src/PostgresStore.ts"
import { reusedSchema, withSql } from "./database.ts"

const schema = reusedSchema()

checkAllSuite("Postgres", async () => {
  const url = await Effect.runPromise(schema)
  return {
    store: PostgresStore.layer({ url }),
    execute: (statement) =>
      Effect.runPromise(withSql(url, (sql) => Effect.asVoid(sql.unsafe(statement)))) as Promise<void>
  }
})
