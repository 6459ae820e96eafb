import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { denialSuite } from "../../../sdk/test/scenario/denialSuite.ts"
import { stored } from "../../../sdk/test/scenario/Mode.ts"
import * as PostgresStore from "../../src/PostgresStore.ts"
import { reusedSchema } from "./database.ts"

const schema = reusedSchema()

denialSuite(
  stored("Postgres", Layer.unwrap(Effect.map(Effect.orDie(schema), (url) => PostgresStore.layer({ url }))))
)
