/**
 * The options of this folder's functions as shapes, with which unknown keys are refused.
 */
import * as Schedule from "effect/Schedule"
import * as Struct from "effect/Struct"
import {
  atLeastOne,
  atLeastZero,
  callable,
  demanded,
  duration,
  oneOf,
  shapeOf,
  type Shape,
  string
} from "../../domain/internal/misfits.ts"
import type { HandleSendOptions } from "../AgentHandle.ts"
import type {
  AttachOptions,
  ConductOptions,
  ConductorOptions,
  DispatchOptions,
  StoredDispatchOptions
} from "../dispatchOptions.ts"

export const restart: Shape = demanded({
  keys: {
    times: atLeastZero,
    backoff: duration,
    schedule: { takes: "a schedule", is: Schedule.isSchedule }
  }
})

const stored = {
  onUpdate: callable,
  cancellation: "anything",
  name: string,
  restart
} as const

export const dispatchShape = shapeOf<DispatchOptions>({ ...stored, keepEvents: "anything" })

export const storedDispatchShape = shapeOf<StoredDispatchOptions>({
  ...stored,
  onClose: oneOf("suspend", "cancel", "letGo")
})

export const attachShape = shapeOf<AttachOptions>({
  ...stored,
  onClose: oneOf("suspend", "cancel", "letGo"),
  agent: "anything"
})

export const conductShape = shapeOf<ConductOptions>({ ...stored, keepEvents: "anything" })

export const storedConductShape = shapeOf<Omit<ConductOptions, "keepEvents">>(stored)

export const adoptShape = shapeOf<Omit<ConductOptions, "keepEvents" | "name">>(Struct.omit(stored, ["name"]))

export const conductorShape = shapeOf<ConductorOptions>({
  name: string,
  concurrency: atLeastOne,
  overflow: oneOf("queue", "block", "reject"),
  maxQueued: atLeastZero,
  limits: "anything",
  restart,
  drainTimeout: "anything"
})

export const sendShape = shapeOf<HandleSendOptions>({
  whenHeld: oneOf("queue", "supersede", "answer", "fork"),
  by: "anything",
  messageId: "anything",
  limits: "anything",
  policy: "anything"
})
