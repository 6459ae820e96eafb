import { assert, describe, it } from "@effect/vitest"
import { RunStoreContract } from "@fermata/sdk/testing"
import * as SqliteStore from "../src/SqliteStore.ts"

RunStoreContract.suite({ assert, describe, it })(":memory:", SqliteStore.layer({ filename: ":memory:" }))
