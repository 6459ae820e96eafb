/**
 * The shapes of the options of a rehearsal. Each shape lists all keys of its type, with the values that they take.
 */
import * as Layer from "effect/Layer"
import { agentKind } from "../../../agent/internal/definitionOptions.ts"
import {
  callable,
  duration,
  either,
  flag,
  type Kind,
  misfits,
  demanded,
  oneOf,
  shapeOf,
  string
} from "../../../domain/internal/misfits.ts"
import { readOnce } from "../../../domain/internal/untyped.ts"
import { OptionsInvalid } from "../../../domain/OptionsInvalid.ts"
import { clientKind } from "../../../model/internal/clientKind.ts"
import type { EveryCrashOptions, Parts, RehearsalRunOptions } from "../../RehearsalParts.ts"

const isObject = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === "object" && value !== null

const agents: Kind = {
  takes: "a list of one agent or more, each as Agent.make returns it",
  is: (value) => Array.isArray(value) && value.length > 0 && value.every(agentKind.is)
}

const partsShape = demanded(
  shapeOf<Parts<unknown>>({
    agents,
    model: { ...clientKind, takes: "a model client, such as the `client` of ScriptedModel.make" },
    store: { takes: "a layer of a run store", is: Layer.isLayer },
    leaseTtl: duration,
    inDoubt: either(oneOf("ask"), callable),
    seed: { takes: "a finite number", is: Number.isFinite },
    patience: duration,
    approvalCallback: callable,
    interactive: flag
  })
)

const whole = "the parts of the rehearsal"

/** Copies the parts and checks them. Returns `OptionsInvalid` if they are unsound. */
export const readParts = <R>(given: Parts<R>): Parts<R> | OptionsInvalid => {
  const own = readOnce(given, 1)
  const found = [
    ...(isObject(own) ? (["agents", "model"] as const) : [])
      .filter((key) => own[key] === undefined)
      .map((key) => ({ place: whole, key, problem: `${whole} name no "${key}"` })),
    ...misfits(own ?? null, partsShape, whole)
  ]
  return found.length === 0 ? own : new OptionsInvalid({ of: "The rehearsal", misfits: found })
}

export const runShape = shapeOf<RehearsalRunOptions>({
  agent: string,
  runId: string,
  sessionId: string,
  context: "anything",
  limits: "anything",
  policy: "anything"
})

export const decideShape = shapeOf<{ readonly by?: string }>({ by: string })

export const everyCrashShape = shapeOf<EveryCrashOptions>({
  crashes: { takes: "1 or 2", is: (value) => value === 1 || value === 2 },
  where: callable
})
