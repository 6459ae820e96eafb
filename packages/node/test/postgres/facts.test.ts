import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { factsSuite } from "../../../sdk/test/scenario/factsSuite.ts"
import { stored } from "../../../sdk/test/scenario/Mode.ts"
import * as PostgresStore from "../../src/PostgresStore.ts"
import { reusedSchema } from "./database.ts"

const schema = reusedSchema()

factsSuite(
  stored("Postgres", Layer.unwrap(Effect.map(Effect.orDie(schema), (url) => PostgresStore.layer({ url }))))
)
