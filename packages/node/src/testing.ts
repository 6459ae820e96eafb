/**
 * Everything that `@fermata/sdk/testing` exports, such as a scripted model, rehearsals and the contract of stores, with a server that
 * replays a model's answers and recordings in a file. A program's tests need no second package.
 *
 * @since 0.1.0
 */
export * from "@fermata/sdk/testing"
export * as ReplayServer from "./testing/ReplayServer.ts"
export * from "./testing/recordingFile.ts"
