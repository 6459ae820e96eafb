import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { queueSuite } from "../../../sdk/test/dispatch/queueSuite.ts"
import * as PostgresStore from "../../src/PostgresStore.ts"
import { reusedSchema } from "./database.ts"

const schema = reusedSchema()

queueSuite("Postgres", Layer.unwrap(Effect.map(Effect.orDie(schema), (url) => PostgresStore.layer({ url }))))
