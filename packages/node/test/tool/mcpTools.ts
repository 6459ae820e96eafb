/** The tools of an MCP server for tests, registered with Effect's own server. */
import * as McpServer from "effect/ai/McpServer"
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"

const Add = Tool.make("add", {
  description: "Adds two numbers",
  parameters: Schema.Struct({ a: Schema.Int, b: Schema.Int }),
  success: Schema.Struct({ sum: Schema.Int })
})
  .annotate(Tool.Readonly, true)
  .annotate(Tool.Idempotent, true)

const Remove = Tool.make("remove", {
  description: "Removes a file",
  parameters: Schema.Struct({ path: Schema.String }),
  success: Schema.String,
  failure: Schema.String
})

const Hang = Tool.make("hang", { description: "Never answers", success: Schema.String })

const Leave = Tool.make("leave", { description: "Ends the server's process", success: Schema.String })

const toolkit = Toolkit.make(Add, Remove, Hang, Leave)

export const registrations = McpServer.toolkit(toolkit).pipe(
  Layer.provide(
    toolkit.toLayer({
      add: ({ a, b }) => Effect.succeed({ sum: a + b }),
      remove: ({ path }) =>
        path === "/" ? Effect.fail("That is everything.") : Effect.succeed(`removed ${path}`),
      hang: () => Effect.never,
      leave: () => Effect.sync(() => process.exit(3))
    })
  )
)
