/**
 * The main entry of a Node program: {@link createFermata}, everything that the root of `@fermata/sdk` exports, and Effect's `Schema`, which
 * describes arguments and answers. It adds clients for models, the tools of MCP servers, the store in a SQLite file, files for the tokens
 * of a login and for secrets, OpenAI's tokenizer, and {@link closeOnSignal}.
 *
 * @since 0.1.0
 */
export * as Schema from "effect/Schema"
export * from "@fermata/sdk"
export * from "./closeOnSignal.ts"
export * from "./createFermata.ts"
export * from "./eventLog.ts"
export * as FileSecrets from "./FileSecrets.ts"
export * as FileTokenStore from "./FileTokenStore.ts"
export * as GptTokenizer from "./GptTokenizer.ts"
export * as CommandRules from "./guard/CommandRules.ts"
export * as PathGuard from "./guard/PathGuard.ts"
export * from "./mcpTools.ts"
export * from "./models.ts"
export type * from "./inferred.ts"
export * from "./sandbox/bubblewrapSandbox.ts"
export * from "./sandbox/containerSandbox.ts"
export * from "./sandbox/DaytonaRuntime.ts"
export * from "./sandbox/daytonaSandbox.ts"
export * from "./sandbox/localSandbox.ts"
export * from "./sandbox/machineSandbox.ts"
export * from "./sandbox/sshSandbox.ts"
export * from "./sandbox/tmuxSandbox.ts"
export * from "./serveStdio.ts"
export * as SqliteStore from "./SqliteStore.ts"
export * as WebGuard from "./guard/WebGuard.ts"
export * from "./tools/fetchUrl.ts"
export * as FileTools from "./tools/FileTools.ts"
export * from "./tools/shellTools.ts"
export * from "./tools/toolsets.ts"
