/**
 * The tools of the scenarios. Each records its effect in the world when it happens.
 */
import { Hold, Tool, type ToolContext } from "@fermata/sdk/tool"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import type { Outside } from "./app.ts"
import { canary } from "./canary.ts"

const Parameters = Schema.Struct({ amount: Schema.Number, memo: Schema.optionalKey(Schema.String) })
type Arguments = typeof Parameters.Type

/** The tools that have an effect. */
export const effectTools = ["note", "charge", "transfer", "put", "book"] as const
/** The tools that start work whose result comes later. */
export const holdTools = ["order", "rest"] as const
type EffectTool = (typeof effectTools)[number]

const options = {
  /** Acts without approval. */
  note: { needsApproval: false },
  /** Acts after approval. */
  charge: {},
  transfer: { safety: "privileged", approval: { expiresIn: "1 hour" } },
  /** May be repeated. */
  put: { needsApproval: false, idempotent: true },
  /** Its outcome can be reconciled. */
  book: { needsApproval: false }
} as const satisfies { readonly [name in EffectTool]: Partial<Tool.ToolOptions<Arguments, unknown>> }

/** Makes all tools, and `look`, which changes nothing. */
export const make = ({ act, world }: Outside): ReadonlyArray<Tool.Tool> => {
  const happened = (key: string) => world.effects.some(({ idempotencyKey }) => idempotencyKey === key)
  const acting = (name: EffectTool) =>
    Tool.make(name, {
      description: `Does ${name}`,
      parameters: Parameters,
      ...options[name],
      ...(name === "book"
        ? {
            reconcile: (idempotencyKey: string) =>
              Effect.gen(function* () {
                const answer = happened(idempotencyKey) ? "happened" : "notHappened"
                yield* act("reconcile", () => world.reconciled.push({ idempotencyKey, answer }))
                return answer === "happened" ? { _tag: answer, result: `book ${canary}` } : { _tag: answer }
              }) as Effect.Effect<Tool.Reconciled>
          }
        : {}),
      handler: (args: Arguments, { attempt, idempotencyKey }: ToolContext.ToolContext) =>
        Effect.as(
          act(name, () => world.effects.push({ idempotencyKey, tool: name, arguments: args, attempt })),
          `${name} ${canary}`
        )
    })
  const look = Tool.make("look", {
    description: "Looks",
    parameters: Parameters,
    safety: "readOnly",
    handler: () =>
      Effect.as(
        act("look", () => {}),
        { seen: canary }
      )
  })
  /** Starts work whose result comes later. */
  const holding = (name: (typeof holdTools)[number], hold: () => Hold.Hold) =>
    Tool.make(name, {
      external: name === "order",
      description: `Starts ${name}`,
      parameters: Parameters,
      needsApproval: false,
      handler: (args: Arguments, { attempt, idempotencyKey }: ToolContext.ToolContext) =>
        Effect.map(
          act(name, () => world.effects.push({ idempotencyKey, tool: name, arguments: args, attempt })),
          hold
        )
    })
  const order = holding("order", () => Hold.pending())
  const rest = holding("rest", () => Hold.wait({ for: "1 hour" }))
  return [...effectTools.map(acting), look, order, rest, Tool.askUser]
}
