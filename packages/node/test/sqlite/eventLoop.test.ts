import { eventLoopSuite } from "../../../sdk/test/promise/eventLoopSuite.ts"
import * as SqliteStore from "../../src/SqliteStore.ts"

eventLoopSuite("SQLite", SqliteStore.layer({ filename: ":memory:" }))
