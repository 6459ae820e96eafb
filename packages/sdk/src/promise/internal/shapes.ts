/**
 * The options of a Fermata's methods as shapes, with which unknown keys are refused. Each shape names every key of its type.
 */
import {
  abortSignal,
  callable,
  flag,
  oneOf,
  type Shape,
  shapeOf,
  string
} from "../../domain/internal/misfits.ts"
import { problemOf } from "../../domain/OptionsInvalid.ts"
import type {
  DecideOptions,
  DecisionOn,
  ConductorDispatchOptions,
  EventsOptions,
  FermataOptions,
  ForkOptions,
  OfAgent,
  PromptOptions,
  ResumeOptions,
  WorkOptions
} from "./options.ts"

/** Throws `OptionsInvalid` for unknown keys. `of` is the name of the function that takes the options, for the error. */
export const requireKnown = (of: string, given: unknown, shape: Shape): void => {
  const problem = problemOf(of, given, shape)
  if (problem !== undefined) throw problem
}

export const fermataShape = shapeOf<FermataOptions>({
  agents: "anything",
  model: "anything",
  store: "anything",
  scrubber: "anything",
  by: "anything",
  drainTimeout: "anything",
  approvalCallback: "anything",
  interactive: flag,
  owner: "anything",
  leaseTtl: "anything",
  cancelGrace: "anything"
})

/** Limits and a policy are checked later, by functions with errors of their own. */
const run = {
  limits: "anything",
  policy: "anything",
  answeredBy: string,
  signal: abortSignal,
  onUpdate: callable
} as const

const prompt = { ...run, runId: "anything", sessionId: "anything", mayRepeat: flag } as const

export const promptShape = shapeOf<PromptOptions>(prompt)

export const dispatchShape = shapeOf<PromptOptions & Pick<ConductorDispatchOptions, "name">>({
  ...prompt,
  name: "anything"
})

export const conductedShape = shapeOf<ConductorDispatchOptions>({
  runId: "anything",
  sessionId: "anything",
  answeredBy: string,
  limits: "anything",
  policy: "anything",
  name: "anything"
})

export const forkShape = shapeOf<ForkOptions>({
  ...run,
  sessionId: "anything",
  revision: "anything",
  newRunId: "anything",
  agent: "anything"
})

export const resumeShape = shapeOf<ResumeOptions>({
  ...run,
  decisions: "anything",
  prompt: "anything",
  agent: "anything"
})

export const ofAgentShape = shapeOf<OfAgent>({ agent: "anything" })

const decide = { by: "anything", note: "anything", idempotencyKey: "anything" } as const

export const decideShape = shapeOf<DecideOptions>(decide)

export const decisionOnShape = shapeOf<DecisionOn>({ ...decide, request: "anything", decision: "anything" })

export const eventsShape = shapeOf<EventsOptions>({
  from: "anything",
  until: oneOf("hold", "end"),
  signal: abortSignal
})

export const pruneShape = shapeOf<{ readonly endedBefore: number }>({ endedBefore: "anything" })

export const workShape = shapeOf<WorkOptions>({
  onUpdate: callable,
  concurrency: "anything",
  pollInterval: "anything",
  drainTimeout: "anything",
  onTakingUp: callable,
  onTakenUp: callable,
  signal: abortSignal
})
