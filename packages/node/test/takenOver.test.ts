import { RunStore } from "@fermata/sdk/store"
import * as SqliteStore from "../src/SqliteStore.ts"
import { takenOver } from "./takenOver.ts"

takenOver("memory", RunStore.layerMemory)
takenOver("SQLite", SqliteStore.layer({ filename: ":memory:" }))
