/**
 * The main entry of a Node program: {@link createFermata} with a SQLite file as its store, the functions that define agents and
 * decisions, the SDK's modules under their own names, and Effect's `Schema`, which describes arguments and answers.
 *
 * @since 0.1.0
 */
export * as Schema from "effect/Schema"
export * from "@fermata/sdk"
export * from "./closeOnSignal.ts"
export * from "./createFermata.ts"
export * as FileTokenStore from "./FileTokenStore.ts"
export * as GptTokenizer from "./GptTokenizer.ts"
export * from "./mcpTools.ts"
export * from "./models.ts"
export type * from "./inferred.ts"
export * as SqliteStore from "./SqliteStore.ts"
