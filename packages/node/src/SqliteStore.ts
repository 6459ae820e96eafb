/**
 * Keeps runs in one SQLite file, with the SQLite that Node brings along.
 *
 * Several processes may use one file at the same time: every write takes the lock at its start, waits for it without blocking
 * the event loop, and is tried again until a deadline. What was acknowledged survives a killed process, and with
 * `synchronous: "full"` (the default) a power cut.
 *
 * @since 0.1.0
 */
import * as SqliteClient from "#sqlite-client"
import * as SqlRunStore from "@fermata/sdk/store/SqlRunStore"
import type * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
