import * as Effect from "effect/Effect"
import * as PostgresStore from "../../src/PostgresStore.ts"
import { acting } from "../acting.ts"
import { reusedSchema } from "./database.ts"

const schema = reusedSchema()

acting(
  "Postgres",
  Effect.map(Effect.orDie(schema), (url) => PostgresStore.layer({ url }))
)
