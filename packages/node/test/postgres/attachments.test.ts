import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { attachmentsSuite } from "../../../sdk/test/durable/attachmentsSuite.ts"
import * as PostgresStore from "../../src/PostgresStore.ts"
import { reusedSchema } from "./database.ts"

const schema = reusedSchema()

attachmentsSuite(
  "Postgres",
  Layer.unwrap(Effect.map(Effect.orDie(schema), (url) => PostgresStore.layer({ url })))
)
