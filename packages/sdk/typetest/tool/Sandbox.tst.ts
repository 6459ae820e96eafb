import type { Sandbox } from "@fermata/sdk/sandbox"
import type { SandboxError } from "@fermata/sdk/sandbox"
import { Tool } from "@fermata/sdk/tool"
import type * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { describe, expect, it } from "tstyche"

type Opening = Effect.Effect<Sandbox.Shape, SandboxError.SandboxLost | SandboxError.SandboxUnavailable>

describe("a tool that acts in a sandbox", () => {
  it("has the sandbox in the context of its handler, and an effect that opens it in its callbacks", () => {
    const tool = Tool.make("run", {
      parameters: Schema.Struct({ line: Schema.String }),
      sandbox: true,
      needsApproval: (_, { sandbox }) => {
        expect(sandbox).type.toBe<Opening>()
        return true
      },
      facts: (_, { sandbox }) => {
        expect(sandbox).type.toBe<Opening>()
        return null
      },
      risk: (_, { sandbox }) => {
        expect(sandbox).type.toBe<Opening>()
        return ""
      },
      preview: (_, { sandbox }) => {
        expect(sandbox).type.toBe<Opening>()
        return ""
      },
      reconcile: (_key, _args, { sandbox }) => {
        expect(sandbox).type.toBe<Opening>()
        return { _tag: "unknown" }
      },
      handler: ({ line }, { sandbox }) => {
        expect(line).type.toBe<string>()
        expect(sandbox).type.toBe<Sandbox.Shape>()
        return sandbox.exec(line)
      }
    })
    expect(tool).type.toBe<Tool.Tool>()
  })

  it("has none without the option", () => {
    Tool.make("run", {
      preview: (_, context) => {
        expect(context).type.not.toHaveProperty("sandbox")
        return ""
      },
      handler: (_, context) => {
        expect(context).type.not.toHaveProperty("sandbox")
      }
    })
    Tool.make("run", {
      sandbox: false,
      handler: (_, context) => {
        expect(context).type.not.toHaveProperty("sandbox")
      }
    })
  })
})
