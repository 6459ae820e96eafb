/**
 * Random stories: for each seed a generated model, several workers on one database, people who decide, send, revoke, fork, repeat
 * themselves, change their minds and disagree, failing statements, crashes, leases that expire under a worker, and a clock that jumps. In
 * the end a worker without faults takes up the remaining runs, every run must end, and everything is checked.
 */
import { Agent } from "@fermata/sdk/agent"
import type { Decision, Id, Interruption } from "@fermata/sdk/domain"
import type { FaultySqlClient, ScriptedModel } from "@fermata/sdk/testing"
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Scope from "effect/Scope"
import { below, generator } from "../../packages/sdk/src/testing/internal/simulation/random.ts"
import { type App, type Definition, live, type Plan, type Store } from "./app.ts"
import { canary } from "./canary.ts"
import { judge } from "./evidence.ts"
import * as tools from "./tools.ts"
import * as Turnstile from "./turnstile.ts"
import { scopeFor, begin, decide, finish, honest } from "./user.ts"
import * as World from "./world.ts"

type Random = () => number

const one = <A>(random: Random, items: ReadonlyArray<A>): A => items[below(random, items.length)]!

/** A number that depends on the text alone. */
const hash = (text: string): number => {
  let value = 2166136261
  for (let i = 0; i < text.length; i++) value = Math.imul(value ^ text.charCodeAt(i), 16777619) >>> 0
  return value
}

const names = [
  "look",
  "look",
  "note",
  "charge",
  "charge",
  "transfer",
  "put",
  "book",
  "ask_user",
  "assistant",
  "nothing_such"
]

/** The model of a seed: the same request of any worker gets the same answer. */
const answerOf =
  (seed: number): Definition["answer"] =>
  ({ agentPath, runId, turn }) => {
    const random = generator(hash(`${seed} ${runId} ${turn}`))
    if (turn > 1 + below(random, 3)) return "Done."
    const deep = agentPath.length > 2
    const calls = Array.from({ length: below(random, 4) }, (): ScriptedModel.ScriptedCall => {
      const tool = one(random, isHandingOver(seed) ? [...names, "transfer_to_billing"] : names)
      if (tool === "transfer_to_billing") return { tool }
      if (tool === "ask_user") return { tool, arguments: { question: "Well?" } }
      if (tool === "assistant") {
        if (deep || !isDelegating(seed)) {
          return { tool: deep ? "look" : tool, arguments: { prompt: "Help.", amount: 1 } }
        }
        const left = random()
        if (left < 0.2) return { tool: "wait_for_agent" }
        if (left < 0.3) return { tool: "list_agents" }
        const agentRun = `${runId}.t1.1`
        if (left < 0.4) return { tool: "cancel_agent", arguments: { agentRun } }
        if (left < 0.5) return { tool: "message_agent", arguments: { agentRun, message: "Hurry." } }
        return { tool: "delegate", arguments: { agent: tool, prompt: "Help.", background: random() < 0.7 } }
      }
      return random() < 0.05
        ? { tool, argumentsText: "{cut" }
        : { tool, arguments: { amount: below(random, 9), memo: canary } }
    })
    return { text: `Let me see ${canary}.`, calls }
  }

/** Whether the agents of a seed start background sub-agents. */
const isDelegating = (seed: number): boolean => hash(`delegation ${seed}`) % 3 === 0

/** Whether another agent, with tools of the same names, can take over a conversation of a seed. */
const isHandingOver = (seed: number): boolean => hash(`handoff ${seed}`) % 3 === 0

const agentOf =
  (seed: number): Definition["agent"] =>
  (outside) => {
    const random = generator(hash(`agent ${seed}`))
    const limits = { maxRecoveries: 1000, ...(random() < 0.2 ? { maxTurns: 1 } : {}) }
    const delegation: "tools" | "delegate" = isDelegating(seed) ? "delegate" : "tools"
    const own = { tools: [...tools.make(outside)], limits, delegation }
    const helper = Agent.make("assistant", own)
    return Agent.make("clerk", {
      ...own,
      ...(isHandingOver(seed) ? { handoffs: [Agent.make("billing", own)] } : {}),
      subAgents: [Agent.make("assistant", { ...own, subAgents: [helper] })],
      ...(random() < 0.1 ? { policy: { mode: "all" as const } } : {})
    })
  }

const faults: ReadonlyArray<FaultySqlClient.Fault> = [
  "crashBefore",
  "crashAfter",
  "crashAfter",
  "busy",
  "full",
  "ioError",
  "connectionLost",
  "lostAcknowledgement"
]

/** Faults are most effective around commits and effects. */
const weight = (what: string): number => {
  if ((tools.effectTools as ReadonlyArray<string>).includes(what)) return 12
  return what === "COMMIT" ? 3 : 1
}

const hour = 3_600_000

/** The inputs from which a worker's actions are drawn. */
interface Story {
  readonly random: Random
  /** Forks are added. */
  readonly runs: Array<Id.RunId>
  readonly turnstile: Turnstile.Turnstile<void>
}

/** A program that is interrupted at a random moment, which cancels the runs that it drives. */
const interrupted = (
  work: Effect.Effect<unknown, unknown>,
  { random, turnstile }: Story,
  world: World.World
) =>
  Effect.gen(function* () {
    const fiber = yield* Effect.forkChild(work)
    for (let turns = below(random, 40); turns > 0; turns--) yield* turnstile.pass()
    yield* Effect.ensuring(Fiber.interrupt(fiber), World.excuseCancelled(world))
  })

/** One action of a user. */
const action = (story: Story, app: App): Effect.Effect<unknown, unknown> => {
  const { random, runs } = story
  const runId = one(random, runs)
  const { clock } = app.world
  switch (below(random, 18)) {
    case 0:
    case 1:
      return begin(app, {
        runId,
        prompt: `Do it with ${canary}.`,
        sessionId: (random() < 0.3 ? "shared" : `of-${runId}`) as Id.SessionId
      })
    case 2:
    case 3:
      return app.go({ runId })
    case 4:
      return app.recover
    case 5:
      return Effect.sync(() =>
        clock.jump(one(random, [1000, 10_000, hour, hour, -hour, 10 * 365 * 24 * hour]))
      )
    case 6:
      return random() < 0.3 ? app.cancel(runId, "changed my mind") : Effect.void
    case 7:
      return random() < 0.5 ? app.go({ runId, message: "And then?" }) : Effect.void
    case 8:
      // A slow worker: its lease expires while it works.
      return random() < 0.6 ? app.world.expireLeases : Effect.void
    case 9:
      return revokeSomething(random, app, runId)
    case 10:
      return interrupted(action(story, app), story, app.world)
    case 11:
      return Effect.all([Effect.exit(action(story, app)), Effect.exit(action(story, app))], {
        concurrency: 2
      })
    case 12:
    case 13:
      return sendSomething(random, app, runId)
    case 14:
      return random() < 0.5 ? forkSomething(story, app, runId) : Effect.void
    case 15:
      // Open requests with an hour to live expire.
      return Effect.andThen(
        Effect.sync(() => clock.jump(1.1 * hour)),
        random() < 0.5 ? app.recover : app.go({ runId })
      )
    default:
      return decideSomething(random, app)
  }
}

/** Sends a message, sometimes twice: one id gives one message. */
const sendSomething = (random: Random, app: App, runId: Id.RunId) =>
  Effect.gen(function* () {
    const messageId = one(random, ["m1", "m2", "m3"])
    const send = app.send(runId, `And then ${messageId}, ${canary}.`, messageId)
    yield* send
    if (random() < 0.3) yield* send
    if (random() < 0.3) yield* app.go({ runId })
  })

/** Forks a run at an earlier revision, into a session of its own. */
const forkSomething = ({ random, runs }: Story, app: App, runId: Id.RunId) => {
  const newRunId = `fork-${1 + below(random, 2)}` as Id.RunId
  const sessionId = `session-${newRunId}` as Id.SessionId
  if (!runs.includes(newRunId)) runs.push(newRunId)
  return app.fork({ runId, prompt: `Another way, ${canary}.`, newRunId, sessionId })
}

const revokeSomething = (random: Random, app: App, runId: Id.RunId) =>
  Effect.flatMap(app.store.load(runId), ({ events }) => {
    const approved = events.flatMap((event) =>
      event._tag === "request.decided" &&
      event.decision._tag === "approve" &&
      event.decision.grant !== undefined
        ? [event.decision.requestId]
        : []
    )
    return approved.length === 0
      ? Effect.void
      : app.revoke(runId, `${one(random, approved)}.grant` as Id.GrantId)
  })

const decideSomething = (random: Random, app: App) =>
  Effect.gen(function* () {
    const pending = yield* app.store.pending()
    if (pending.length === 0) return
    const { request, runId } = one(random, pending)
    const decision = whim(random, request, app)
    if (decision === undefined) return
    yield* decide(app, decision)
    // Twice, by the same or another person.
    if (random() < 0.3) yield* decide(app, random() < 0.5 ? decision : { ...decision, by: "bob" })
    if (random() < 0.5) yield* app.go({ runId })
  })

const whim = (
  random: Random,
  request: Interruption.Interruption,
  app: App
): Decision.DecisionInput | undefined => {
  const { requestId } = request
  const by = one(random, ["ann", "bob"])
  if (request._tag === "approval") {
    const { digest } = request
    const chance = random()
    if (chance < 0.15) return { _tag: "deny", requestId, by }
    if (chance < 0.2) return { _tag: "deny", requestId, by, then: "stop" }
    if (chance < 0.35) return { _tag: "approve", requestId, by, digest, arguments: { amount: 77 } }
    if (chance < 0.4) return { _tag: "supply", requestId, by, result: "it is done" }
    if (chance < 0.55 && request.safety !== "privileged") {
      const grant = { scope: scopeFor(request, "session"), inherit: random() < 0.5 }
      return { _tag: "approve", requestId, by, digest, grant }
    }
  }
  if (request._tag === "limit" && random() < 0.2) return { _tag: "deny", requestId, by }
  const decision = honest(request, app)
  return decision === undefined ? undefined : { ...decision, by }
}

export interface SeedOptions {
  readonly databases: World.Databases
  readonly seed: number
  readonly mutate?: (store: Store, world: World.World) => Store
}

/** Plays one seed. */
export const play = async ({ databases, mutate, seed }: SeedOptions): Promise<ReadonlyArray<string>> => {
  const random = generator(seed)
  const scope = await Effect.runPromise(Scope.make())
  const world = await Effect.runPromise(Scope.provide(World.make(databases), scope))
  const turnstile = Turnstile.make<void>(Turnstile.randomly(generator(hash(`turns ${seed}`))), world.activity)
  const definition: Definition = { agent: agentOf(seed), answer: answerOf(seed) }
  const runs = Array.from({ length: 1 + below(random, 3) }, (_, index) => `run-${index + 1}` as Id.RunId)
  const trouble = one(random, [0, 0.01, 0.02, 0.04, 0.1])
  const defects: Array<string> = []
  // Owners may have the same name.
  const isAnonymous = random() < 0.2
  const mutated = mutate === undefined ? {} : { mutate: (store: Store) => mutate(store, world) }

  const worker = (index: number): Effect.Effect<void> =>
    Effect.gen(function* () {
      const mine = generator(hash(`worker ${seed} ${index}`))
      const plan: Plan = (what) =>
        Effect.map(turnstile.pass(), () => (mine() < trouble * weight(what) ? one(mine, faults) : "pass"))
      for (let left = 6 + below(mine, 14); left > 0;) {
        const lived = yield* live(
          { world, definition, plan, owner: isAnonymous ? "worker" : `worker-${index}`, seed, ...mutated },
          (app) =>
            Effect.gen(function* () {
              for (; left > 0; left--) {
                const exit = yield* Effect.exit(action({ random: mine, runs, turnstile }, app))
                if (Exit.isFailure(exit) && Cause.hasDies(exit.cause)) {
                  left -= 1
                  return yield* exit
                }
              }
            })
        )
        if (Exit.isFailure(lived.exit) && !lived.crashed) {
          // A database that cannot be opened for the moment is opened again.
          if (Cause.hasDies(lived.exit.cause)) defects.push(`died: ${Cause.pretty(lived.exit.cause)}`)
          left -= 1
        }
        // Its runs are taken over at once, or later.
        if (lived.crashed && mine() < 0.5) yield* world.expireLeases
      }
    })

  /** Drives the runs without faults, and only those that `recover` finds: a run that it does not find is lost. */
  const calm = Effect.gen(function* () {
    if (!(yield* world.expireLeases)) return yield* Effect.die(new Error("A process still writes."))
    const plan: Plan = () => Effect.as(turnstile.pass(), "pass" as const)
    const lived = yield* live({ world, definition, plan, owner: "last", ...mutated }, finish)
    if (Exit.isSuccess(lived.exit)) defects.push(...lived.exit.value)
    else defects.push(`the last worker failed: ${Cause.pretty(lived.exit.cause)}`)
  })

  try {
    await turnstile.run(
      Effect.gen(function* () {
        const workers = 1 + below(random, 3)
        yield* Effect.forEach(
          Array.from({ length: workers }, (_, index) => index),
          worker,
          {
            concurrency: workers,
            discard: true
          }
        )
        yield* calm
      })
    )
  } catch (error) {
    defects.push(`stuck: ${error instanceof Error ? error.message : String(error)}`)
  }
  const { violations } = await Effect.runPromise(judge(world))
  await Effect.runPromise(Scope.close(scope, Exit.void))
  return [...defects, ...violations]
}
