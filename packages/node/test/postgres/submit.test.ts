import * as Effect from "effect/Effect"
import { submitSuite } from "../../../sdk/test/promise/submitSuite.ts"
import * as PostgresStore from "../../src/PostgresStore.ts"
import { reusedSchema } from "./database.ts"

const schema = reusedSchema()

submitSuite("Postgres", async () => PostgresStore.layer({ url: await Effect.runPromise(schema) }))
