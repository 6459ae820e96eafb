import { RunStore } from "@fermata/sdk/store"
import * as SqliteStore from "../src/SqliteStore.ts"
import { notHeardOf } from "./notHeardOf.ts"

notHeardOf("memory", RunStore.layerMemory)
notHeardOf("SQLite", SqliteStore.layer({ filename: ":memory:" }))
