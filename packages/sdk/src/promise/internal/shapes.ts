/**
 * The options of a Fermata's methods as shapes, with which unknown keys and values of a wrong kind are refused. Each shape names every key
 * of its type; `"anything"` marks values that are checked elsewhere.
 */
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Struct from "effect/Struct"
import { agentKind } from "../../agent/internal/definitionOptions.ts"
import { restart } from "../../dispatch/internal/shapes.ts"
import {
  abortSignal,
  atLeastOne,
  callable,
  flag,
  type Kind,
  natural,
  nonEmpty,
  note,
  oneOf,
  positive,
  required,
  type Shape,
  shapeOf,
  string,
  time
} from "../../domain/internal/misfits.ts"
import { millisOf } from "../../domain/internal/untyped.ts"
import { problemOf } from "../../domain/OptionsInvalid.ts"
import type { CompactOptions } from "../../durable/compactRun.ts"
import type { SendOptions } from "../../durable/sendMessage.ts"
import { clientKind } from "../../model/internal/clientKind.ts"
import { filters } from "../../store/internal/soundInput.ts"
import { toolKind } from "../../tool/internal/definitionOptions.ts"
import type {
  AttachOptions,
  BackgroundOptions,
  DecideOptions,
  DecisionOn,
  ConductorDispatchOptions,
  DamagedRunsOptions,
  EventsOptions,
  EventsResponseOptions,
  FermataChange,
  FermataOptions,
  ForkOptions,
  OfAgent,
  PromptOptions,
  ReadOptions,
  ResumeOptions,
  SubmitOptions,
  WorkOptions
} from "./options.ts"

/** Throws `OptionsInvalid` for unknown keys and wrong values. `of` is the name of the function that takes the options, for the error. */
export const requireKnown = (of: string, given: unknown, shape: Shape): void => {
  const problem = problemOf(of, given, shape)
  if (problem !== undefined) throw problem
}

const policy: Kind = {
  takes: "a function, or an object with a function `prepare`",
  is: (value) => callable.is(value) || has(value, "prepare")
}

const tokenizer: Kind = {
  takes: "an object with a function `count`",
  is: (value) => has(value, "count")
}

const has = (value: unknown, method: string): boolean =>
  typeof value === "object" && value !== null && callable.is((value as Record<string, unknown>)[method])

export const fermataShape = shapeOf<FermataOptions>({
  agents: { each: agentKind, required: true },
  model: required(clientKind),
  store: required({
    takes: "a layer with a RunStore, such as RunStore.layerMemory or SqliteStore.layer({ ... })",
    is: Layer.isLayer
  }),
  scrubber: {
    takes: "a scrubber, as Scrubber.make returns it: an object with the function scrub",
    is: (value) => typeof value === "object" && value !== null && "scrub" in value && callable.is(value.scrub)
  },
  secrets: {
    takes:
      "a source of secrets, as Secrets.environment or Secrets.make returns it: an object with the function get",
    is: (value) => has(value, "get") && !(value instanceof Map)
  },
  web: {
    takes: "an Effect that makes a guarded HTTP client, such as WebClient.access()",
    is: (value) => Effect.isEffect(value)
  },
  by: "anything",
  drainTimeout: "anything",
  approvalCallback: "anything",
  interactive: flag,
  owner: "anything",
  leaseTtl: "anything",
  cancelGrace: "anything",
  closeTimeout: "anything",
  maxResultLength: "anything",
  sandbox: "anything",
  sandboxes: "anything",
  workingDirectory: "anything",
  profile: "anything",
  profiles: "anything",
  mode: "anything",
  extensions: "anything",
  hooks: "anything",
  modelProfile: nonEmpty,
  contextPolicy: policy,
  memory: {
    takes: "true or false, or the options of memory: { messages, retrieve, user, partition, share, most }",
    is: (value) => typeof value === "boolean" || (typeof value === "object" && value !== null)
  },
  tokenizer
})

export const reconfigureShape = shapeOf<FermataChange>({
  agents: { each: agentKind },
  agent: "anything",
  profile: nonEmpty,
  mode: nonEmpty,
  tools: { each: toolKind },
  model: clientKind,
  modelProfile: nonEmpty
})

export const storelessShape: Shape = {
  keys: Struct.omit(fermataShape.keys, ["leaseTtl", "memory", "owner", "store"])
}

/** Limits, a policy and a context are checked later, by functions with errors of their own. */
const run = {
  context: "anything",
  limits: "anything",
  policy: "anything",
  answeredBy: string,
  signal: abortSignal,
  onUpdate: callable
} as const

const prompt = { ...run, runId: "anything", sessionId: "anything", mayRepeat: flag } as const

export const promptShape = shapeOf<PromptOptions>(prompt)

export const submitShape = shapeOf<SubmitOptions>(Struct.omit(prompt, ["signal", "onUpdate"]))

const handle = { restart, onClose: oneOf("suspend", "cancel", "letGo") } as const

export const dispatchShape = shapeOf<BackgroundOptions>({ ...prompt, ...handle, name: string })

const unstored = Struct.omit(prompt, ["mayRepeat"])

export const unstoredPromptShape = shapeOf<Omit<PromptOptions, "mayRepeat">>(unstored)

export const unstoredDispatchShape = shapeOf<Omit<BackgroundOptions, "mayRepeat" | "onClose">>({
  ...unstored,
  name: string,
  restart
})

export const attachShape = shapeOf<AttachOptions>({ ...handle, agent: "anything" })

export const conductedShape = shapeOf<ConductorDispatchOptions>({
  runId: "anything",
  sessionId: "anything",
  answeredBy: string,
  context: "anything",
  limits: "anything",
  policy: "anything",
  name: string
})

export const forkShape = shapeOf<ForkOptions>({
  ...run,
  sessionId: "anything",
  revision: natural,
  newRunId: "anything",
  agent: "anything"
})

export const resumeShape = shapeOf<ResumeOptions>({
  ...run,
  decisions: "anything",
  prompt: "anything",
  agent: "anything"
})

export const sendMessageShape = shapeOf<SendOptions>({ messageId: "anything" })

export const ofAgentShape = shapeOf<OfAgent>({ agent: "anything" })

const decide = { by: "anything", note, idempotencyKey: nonEmpty } as const

export const decideShape = shapeOf<DecideOptions>(decide)

export const compactShape = shapeOf<CompactOptions>({ dryRun: flag, by: nonEmpty })

export const pinShape = shapeOf<{ readonly by?: unknown; readonly pinned?: boolean }>({
  by: "anything",
  pinned: flag
})

export const reopenShape = shapeOf<Pick<DecideOptions, "by" | "note">>({ by: decide.by, note: decide.note })

export const revokeShape = shapeOf<Pick<DecideOptions, "by">>({ by: decide.by })

export const decisionOnShape = shapeOf<DecisionOn>({ ...decide, request: "anything", decision: "anything" })

export const damagedRunsShape = shapeOf<DamagedRunsOptions>({ journals: flag })

/** The options of the iterables of handles and conductors. */
export const readShape = shapeOf<ReadOptions>({ signal: abortSignal })

export const eventsShape = shapeOf<EventsOptions>({
  from: natural,
  until: oneOf("hold", "end"),
  signal: abortSignal
})

/** The arguments of `cancel`, and of that of a conductor. */
export const cancelShape = shapeOf<{ readonly reason?: string }>({ reason: string })
export const cancelNamedShape = shapeOf<{ readonly name: string; readonly reason?: string }>({
  name: required(string),
  reason: string
})

const request: Kind = {
  takes: "a Request, or an object with `headers` such as the request of a Node server",
  is: (value) =>
    typeof value === "object" &&
    value !== null &&
    "headers" in value &&
    typeof value.headers === "object" &&
    value.headers !== null &&
    (!("signal" in value) || value.signal === undefined || abortSignal.is(value.signal))
}

const heartbeat: Kind = {
  takes: 'a duration of 1 millisecond or more, such as "15 seconds"',
  is: (value) => (millisOf(value) ?? 0) >= 1,
  among: ["string", "number"]
}

export const eventsResponseShape = shapeOf<EventsResponseOptions>({
  from: natural,
  until: oneOf("hold", "end"),
  signal: abortSignal,
  request,
  heartbeat
})

/** The filters of the methods that list what is stored. A store returns an empty page for a `limit` of 0, which would look like the last one. */
export const filterShapes = {
  pending: { keys: { ...filters.pending, limit: positive } },
  runs: { keys: { ...filters.list, limit: positive } },
  sessions: { keys: { ...filters.sessions, limit: positive } },
  grants: { keys: { ...filters.grants, limit: positive } }
} satisfies Readonly<Record<string, Shape>>

export const pruneShape = shapeOf<{ readonly endedBefore: number }>({ endedBefore: required(time) })

export const workShape = shapeOf<WorkOptions>({
  onUpdate: callable,
  concurrency: atLeastOne,
  pollInterval: "anything",
  drainTimeout: "anything",
  onTakingUp: callable,
  onTakenUp: callable,
  signal: abortSignal
})
