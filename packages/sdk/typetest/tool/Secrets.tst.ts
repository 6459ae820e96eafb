import { type Fermata } from "@fermata/sdk/promise"
import { Secrets, Tool } from "@fermata/sdk/tool"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import type * as Layer from "effect/Layer"
import * as Redacted from "effect/Redacted"
import * as Schema from "effect/Schema"
import type * as Scope from "effect/Scope"
import { describe, expect, it } from "tstyche"

class Vault extends Context.Service<
  Vault,
  { readonly read: (path: string) => Effect.Effect<Redacted.Redacted<string>, Error, Scope.Scope> }
>()("test/Vault") {}

describe("a source of secrets", () => {
  it("is a function of a name and a call, of a value, a promise or an effect without services", () => {
    expect(Secrets.make((name) => name)).type.toBe<Secrets.Secrets>()
    expect(Secrets.make(async () => undefined)).type.toBe<Secrets.Secrets>()
    expect(Secrets.make(() => Effect.succeed(Redacted.make("x")))).type.toBe<Secrets.Secrets>()
    expect(Secrets.make((_, { agentPath }) => agentPath[0])).type.toBe<Secrets.Secrets>()
    expect(Secrets.make).type.not.toBeCallableWith(() => 7)
    expect(Secrets.make).type.not.toBeCallableWith(() => Effect.flatMap(Vault, ({ read }) => read("x")))
  })
  it("is a layer that needs the services of its effect, except the scope", () => {
    const layer = Secrets.layer((name) => Effect.flatMap(Vault, ({ read }) => read(name)))
    expect(layer).type.toBe<Layer.Layer<never, never, Vault>>()
    expect(Secrets.layerEnvironment(["TOKEN"])).type.toBe<Layer.Layer<never>>()
    expect(Secrets.layerMemory({ token: "x" })).type.toBe<Layer.Layer<never>>()
  })
  it("is an option of a Fermata", () => {
    expect<Fermata.FermataOptions["secrets"]>().type.toBe<Secrets.Secrets | undefined>()
  })
})

describe("a tool with secrets", () => {
  it("has the types of its parameters and of its services", () => {
    const tool = Tool.make("push", {
      parameters: Schema.Struct({ token: Schema.RedactedFromValue(Schema.String) }),
      secrets: ["github-token", "db/*"],
      handler: ({ token }) => {
        expect(token).type.toBe<Redacted.Redacted<string>>()
        return Effect.as(Vault, "pushed")
      }
    })
    expect(tool).type.toBe<Tool.Tool<Vault>>()
  })
})
