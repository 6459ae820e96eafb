/**
 * A scripted model, a server that replays a model's answers, and the contract of stores, so that a program's tests need no second
 * package.
 *
 * @since 0.1.0
 */
export * from "@fermata/sdk/testing"
export * as ReplayServer from "./testing/ReplayServer.ts"
export * from "./testing/recordingFile.ts"
