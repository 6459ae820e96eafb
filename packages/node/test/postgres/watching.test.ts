import * as Effect from "effect/Effect"
import * as PostgresStore from "../../src/PostgresStore.ts"
import { watching } from "../watching.ts"
import { reusedSchema } from "./database.ts"

const schema = reusedSchema()

watching(
  "Postgres",
  Effect.map(Effect.orDie(schema), (url) => PostgresStore.layer({ url }))
)
