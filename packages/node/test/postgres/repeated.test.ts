import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { stored } from "../../../sdk/test/scenario/Mode.ts"
import { repeatedSuite } from "../../../sdk/test/scenario/repeatedSuite.ts"
import * as PostgresStore from "../../src/PostgresStore.ts"
import { reusedSchema } from "./database.ts"

const schema = reusedSchema()

repeatedSuite(
  stored("Postgres", Layer.unwrap(Effect.map(Effect.orDie(schema), (url) => PostgresStore.layer({ url }))))
)
