import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { runContextSuite } from "../../../sdk/test/durable/runContextSuite.ts"
import * as PostgresStore from "../../src/PostgresStore.ts"
import { reusedSchema } from "./database.ts"

const schema = reusedSchema()

runContextSuite(
  "Postgres",
  Layer.unwrap(Effect.map(Effect.orDie(schema), (url) => PostgresStore.layer({ url })))
)
