/**
 * The actor of a control plane: takes commands and the ends of tasks, one after the other.
 */
import * as Cause from "effect/Cause"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Queue from "effect/Queue"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import * as SchemaIssue from "effect/SchemaIssue"
import { messageOf } from "../../domain/Display.ts"
import type { SessionId } from "../../domain/Id.ts"
import { canonicalJson } from "../../domain/internal/json.ts"
import { hintFor } from "../../domain/internal/misfits.ts"
import { readOnce } from "../../domain/internal/untyped.ts"
import { attribute, type Principal } from "../../domain/Principal.ts"
import type { Acknowledgement } from "../Acknowledgement.ts"
import {
  CommandFailed,
  CommandIdTaken,
  CommandInvalid,
  type CommandRejection,
  ControlRejection,
  RuntimeStopped
} from "../CommandRejection.ts"
import { RuntimeCommand } from "../RuntimeCommand.ts"
import type { Core } from "./Core.ts"
import { type Author, type CommandFault, handleCommand, ownPrefix } from "./handleCommand.ts"
import { settleTask, startQueued, tagOf } from "./tasks.ts"

/** The number of commands whose acknowledgements are kept for repetitions. */
const keptCommands = 4096

interface Taken {
  readonly text: string
  readonly acknowledgement: Acknowledgement
}

/** Runs the actor until it is interrupted. */
export const actor = (core: Core, by: string | Principal): Effect.Effect<never> => {
  const taken = new Map<string, Taken>()
  return Effect.forever(
    Effect.flatMap(Queue.take(core.options.mailbox), (submission) => {
      if (submission._tag === "taskDone") return taskDone(core, submission.task)
      if (submission._tag === "compactionDone") return compactionDone(core, submission.sessionId)
      const { command, reply } = submission
      return Effect.flatMap(Effect.exit(take(core, taken, command, submission.by ?? by)), (exit) =>
        Deferred.done(reply, exit)
      )
    })
  )
}

const taskDone = Effect.fnUntraced(function* (core: Core, task: Parameters<typeof settleTask>[1]) {
  yield* settleTask(core, task)
  const session = core.sessions.get(task.sessionId)
  if (session !== undefined) yield* startQueued(core, session)
})

const compactionDone = (core: Core, sessionId: SessionId): Effect.Effect<void> =>
  Effect.suspend(() => {
    const session = core.sessions.get(sessionId)
    return session === undefined ? Effect.void : startQueued(core, session)
  })

const take = Effect.fnUntraced(function* (
  core: Core,
  taken: Map<string, Taken>,
  given: unknown,
  by: string | Principal
): Effect.fn.Return<Acknowledgement, CommandRejection> {
  if (core.status !== "running") return yield* new RuntimeStopped({})
  const decoded = yield* decodeCommand(given)
  const author = yield* authorOf(by)
  const commandId = decoded.commandId ?? `${ownPrefix}${globalThis.crypto.randomUUID()}`
  const text = canonicalJson({ ...decoded, commandId } as unknown as Schema.Json)
  const earlier = taken.get(commandId)
  if (earlier !== undefined) {
    if (earlier.text !== text) return yield* new CommandIdTaken({ commandId })
    return { ...earlier.acknowledgement, repeated: true }
  }
  const { seq } = core.options.history
  const exit = yield* Effect.exit(handleCommand(core, { ...decoded, commandId }, author))
  if (Exit.isFailure(exit)) return yield* rejection(decoded._tag, exit.cause)
  const acknowledgement = { ...exit.value, commandId, seq } as Acknowledgement
  taken.set(commandId, { text, acknowledgement })
  for (const oldest of taken.keys()) {
    if (taken.size <= keptCommands) break
    taken.delete(oldest)
  }
  return acknowledgement
})

const authorOf = (by: string | Principal): Effect.Effect<Author, CommandInvalid> => {
  const attributed = attribute(by)
  return Result.isSuccess(attributed)
    ? Effect.succeed({ given: by, attributed: attributed.success })
    : Effect.fail(new CommandInvalid({ issues: attributed.failure.message.replace(/\.$/, "") }))
}

const isControlRejection = Schema.is(ControlRejection)

const domainRejections = new Set([
  "RequestNotFound",
  "AlreadyDecided",
  "RequestSuperseded",
  "ArgumentsChanged",
  "DecisionNotApplicable",
  "GrantRefused",
  "EditedArgumentsInvalid",
  "SuppliedResultInvalid",
  "DecisionMalformed"
])

/** The rejection for a failure: its own type if it has one, or `CommandFailed`. */
const rejection = (command: string, cause: Cause.Cause<CommandFault>): CommandRejection => {
  const error: unknown = Cause.squash(cause)
  if (isControlRejection(error)) return error
  const reason = tagOf(error)
  if (domainRejections.has(reason)) return error as CommandRejection
  return new CommandFailed({ command, reason, problem: messageOf(error) })
}

type Decoder = (given: unknown) => Result.Result<RuntimeCommand, Schema.SchemaError>

const decoders: ReadonlyMap<string, Decoder> = new Map(
  RuntimeCommand.members.map((member) => [
    member.fields._tag.literal as string,
    Schema.decodeUnknownResult(member as unknown as Schema.Codec<RuntimeCommand>, {
      errors: "all",
      onExcessProperty: "error"
    })
  ])
)

const format = SchemaIssue.makeFormatterStandardSchemaV1()

/** Decodes a command by its tag, so that the issues are about that command alone. */
const decodeCommand = (given: unknown): Effect.Effect<RuntimeCommand, CommandInvalid> => {
  const own = readOnce(given)
  const tag: unknown = typeof own === "object" && own !== null && "_tag" in own ? own._tag : undefined
  const decoder = typeof tag === "string" ? decoders.get(tag) : undefined
  if (decoder === undefined) {
    const names = [...decoders.keys()]
    const issues =
      typeof tag === "string"
        ? `there is no command "${tag}"${hintFor(tag, names)}`
        : `its "_tag" has to be the name of a command: ${names.join(", ")}`
    return Effect.fail(new CommandInvalid({ issues }))
  }
  const decoded = decoder(own)
  if (Result.isSuccess(decoded)) return Effect.succeed(decoded.success)
  const issues = format(decoded.failure.issue).issues.map(
    ({ message, path = [] }) => `"${path.map(String).join(".")}": ${message}`
  )
  return Effect.fail(new CommandInvalid({ issues: issues.slice(0, 10).join("; ") }))
}
