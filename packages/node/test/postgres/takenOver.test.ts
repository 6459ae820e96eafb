import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as PostgresStore from "../../src/PostgresStore.ts"
import { takenOver } from "../takenOver.ts"
import { reusedSchema } from "./database.ts"

const schema = reusedSchema()

takenOver("Postgres", Layer.unwrap(Effect.map(Effect.orDie(schema), (url) => PostgresStore.layer({ url }))))
