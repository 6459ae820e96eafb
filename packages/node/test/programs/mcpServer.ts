/** An MCP server over standard input and output. Argument: the revision of MCP that it speaks. */
import * as NodeStdio from "@effect/platform-node/NodeStdio"
import * as McpProtocol from "effect/ai/McpProtocol"
import * as McpServer from "effect/ai/McpServer"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as References from "effect/References"
import { registrations } from "../tool/mcpTools.ts"

const protocol = process.argv[2] === "2026-07-28" ? McpProtocol.v2026_07_28 : McpProtocol.v2025_11_25

const server = McpServer.layerStdio({
  name: "tested",
  version: "1.0.0",
  protocols: [protocol],
  registrations
})

await Effect.runPromise(
  Layer.launch(server).pipe(
    Effect.provide(NodeStdio.layer),
    // The protocol owns the standard output.
    Effect.provideService(References.LogToStderr, true)
  )
)
