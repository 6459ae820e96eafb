/**
 * What people do with agents, each as a program that can be repeated from its start after any crash.
 */
import { ContextPolicy } from "@fermata/sdk/context"
import { Id, Message } from "@fermata/sdk/domain"
import { completeStored, exportRun, importRun } from "@fermata/sdk/durable"
import { type RunResult } from "@fermata/sdk/run"
import { BlobPort } from "@fermata/sdk/store"
import * as Data from "effect/Data"
import * as Effect from "effect/Effect"
import * as Base64 from "effect/encoding/Base64"
import * as Stream from "effect/Stream"
import {
  byTurn,
  calls,
  conducting,
  delegating,
  failingUntilMended,
  grantingToHelper,
  handingOver,
  handingOverAtWork,
  mended,
  plainAgent,
  prompt,
  question,
  talking,
  withAssistant,
  withBilling,
  withHelper,
  withMendable,
  withNamesakes,
  withTeam
} from "./agents.ts"
import type { App, Definition } from "./app.ts"
import { canary } from "./canary.ts"
import {
  attached,
  begin,
  type Choose,
  decide,
  granting,
  grantingFor,
  honest,
  isThere,
  settle,
  unless
} from "./user.ts"

/** A scenario. */
export interface Scenario {
  readonly name: string
  /** Whether pairs of crashes are tried, too. */
  readonly core: boolean
  /** Whether it begins with a database without tables. */
  readonly fresh: boolean
  /** Whether there are two databases. */
  readonly two: boolean
  readonly definition: Definition
  readonly user: (app: App) => Effect.Effect<unknown, unknown>
}

const runId = "run" as Id.RunId
const sessionId = "session" as Id.SessionId

/** The actions of people, as an effect or as the generator of one. */
type Use = (app: App) => Effect.Effect<unknown, unknown> | Effect.fn.Return<unknown, unknown>

const scenario = (
  name: string,
  answer: Definition["answer"],
  user: Use,
  options: {
    readonly core?: boolean
    readonly fresh?: boolean
    readonly two?: boolean
    readonly agent?: Definition["agent"]
    readonly contextPolicy?: Definition["contextPolicy"]
  } = {}
): Scenario => ({
  name,
  core: options.core ?? false,
  fresh: options.fresh ?? false,
  two: options.two ?? false,
  definition: { agent: options.agent ?? plainAgent, answer, contextPolicy: options.contextPolicy },
  user: Effect.fnUntraced(function* (app) {
    return yield* user(app)
  })
})

const start = (app: App) => begin(app, { runId, sessionId, prompt })
const startAndSettle =
  (choose: Choose = honest, options?: { readonly oneByOne?: boolean }) =>
  (app: App) =>
    settle(app, start(app), choose, options)

const denying: Choose = (request, app) =>
  request._tag === "approval"
    ? { _tag: "deny", requestId: request.requestId, by: "ann", message: `Not today, ${canary}.` }
    : honest(request, app)

const editing: Choose = (request, app) =>
  request._tag === "approval"
    ? {
        _tag: "approve",
        requestId: request.requestId,
        by: "ann",
        digest: request.digest,
        arguments: { amount: 7 }
      }
    : honest(request, app)

const isHeld = (result: RunResult.RunResult) => result.status === "interrupted"

/** Decides only calls in doubt; all other requests stay open. */
const doubtOnly: Choose = (request, app) => (request._tag === "inDoubt" ? honest(request, app) : undefined)

/** Decides only the lead's own requests and calls in doubt; those of its sub-agents stay open. */
const ownOnly: Choose = (request, app) =>
  request._tag === "inDoubt" || request.runId === runId ? honest(request, app) : undefined

const firstRequest = Id.requestId(runId, 1)

/** Approves the run's first request with a grant, and revokes it when the run asks a question or for a transfer. */
const revoking = (grant: Choose): Use =>
  function* (app) {
    const result = yield* settle(app, start(app), (request, app) =>
      (request.requestId === firstRequest ? grant : doubtOnly)(request, app)
    )
    const isDue =
      result.status === "interrupted" &&
      result.interruptions.some(
        (request) =>
          request._tag === "question" || (request._tag === "approval" && request.tool === "transfer")
      )
    if (isDue) yield* app.revoke(runId, Id.grantId(firstRequest))
    return yield* settle(app, result)
  }

/** Decides only calls in doubt. An order that has happened is left to the delivery of its result. */
const ordering: Choose = (request, app) => {
  const decision = doubtOnly(request, app)
  const isOrder = request._tag === "inDoubt" && request.tool === "order"
  return isOrder && decision?._tag === "supply" ? undefined : decision
}

/** Delivers the results of all orders that have happened, again if they were delivered before. */
const deliver = (app: App) =>
  Effect.forEach(app.world.effects, ({ idempotencyKey, tool }) =>
    tool === "order"
      ? unless(
          "TokenNotFound",
          "AlreadyDecided",
          "RequestSuperseded"
        )(
          app.stored(completeStored([], idempotencyKey, { result: `${delivered} ${canary}` }, { waitFor: 0 }))
        )
      : Effect.void
  )

const delivered = "It was delivered."

/** Cancels the run that is held. */
const cancelling: Use = function* (app) {
  const result = yield* settle(app, start(app), doubtOnly)
  if (isHeld(result)) yield* app.cancel(runId, `changed my mind about ${canary}`)
  return yield* app.go({ runId })
}

/** Another run of the session, until it ends. */
const playNext = (app: App, name: string) =>
  settle(app, begin(app, { runId: name as Id.RunId, sessionId, prompt: "Again." }))

const forkId = "fork" as Id.RunId

/** A fork of the run, until it ends. */
const playFork: Use = function* (app) {
  const forked = (yield* isThere(app, forkId))
    ? app.go({ runId: forkId })
    : app.fork({
        runId,
        prompt: `Again, ${canary}.`,
        newRunId: forkId,
        sessionId: "other" as Id.SessionId
      })
  return yield* settle(app, forked)
}

/** Exports a held or ended run, removes it, imports it into the second database, and continues there. */
const moving = (upToHold: Use) => (app: App) =>
  Effect.gen(function* () {
    const second = app.second!
    const { notes } = app.world
    // While it exists, it may have continued.
    if (!notes.has("archive") || (yield* isThere(app, runId))) {
      yield* upToHold(app)
      notes.set("archive", JSON.stringify(yield* app.stored(exportRun(runId))))
      yield* app.store.remove(runId)
    }
    yield* unless("RunExists")(second.stored(importRun(JSON.parse(notes.get("archive")!))))
    return yield* settle(second, second.go({ runId }))
  })

/** Lets runs end, and removes them. Each is whole or gone. */
const removing =
  (
    runs: ReadonlyArray<Id.RunId>,
    toTheEnd: (app: App) => Effect.Effect<unknown, unknown>,
    remove: (app: App) => Effect.Effect<unknown, unknown>
  ) =>
  (app: App) =>
    Effect.gen(function* () {
      const { notes, removed } = app.world
      const whole = Effect.gen(function* () {
        const archive = yield* app.stored(exportRun(runId))
        const request = yield* app.store.request(Id.requestId(archive.runs[0].runId, 1))
        return JSON.stringify([archive, request])
      })
      if (!notes.has("whole")) {
        yield* toTheEnd(app)
        notes.set("whole", yield* whole)
      }
      if (yield* isThere(app, runId)) {
        if ((yield* whole) !== notes.get("whole"))
          return yield* Effect.die(new Error("The run is partly removed."))
      }
      yield* remove(app)
      for (const runId of runs) {
        // A lease that a process could not give back keeps the run until it expires.
        if (yield* isThere(app, runId)) return yield* new StillThere({ runId })
        removed.add(runId)
      }
    })

/** Fails unless the call of an ended run opened a request, and was not covered by a grant. */
const hasAsked = (app: App, runId: Id.RunId) =>
  Effect.flatMap(app.store.events(runId), (events) =>
    events.some(({ _tag }) => _tag === "request.opened")
      ? Effect.void
      : Effect.die(new Error(`${runId} relied on a grant that is not in force.`))
  )

class StillThere extends Data.TaggedError("StillThere")<{ readonly runId: Id.RunId }> {}

/** Two runs of a session; the second has the id of the run in other scenarios. */
const firstRun = "run-1" as Id.RunId
const inSession =
  (choose: Choose) =>
  (app: App): Effect.Effect<unknown, unknown> =>
    Effect.gen(function* () {
      yield* settle(app, begin(app, { runId: firstRun, sessionId, prompt }))
      app.world.clock.jump(1000)
      return yield* settle(app, start(app), choose)
    })

const plan = new Uint8Array(300_000).fill(8)

/**
 * Starts a run with the bytes of a file, stores a content for a message to it, reads both after the run's end, and removes them with the run.
 */
const attaching: Use = function* (app) {
  const { databases, notes, removed } = app.world
  const blobs = app.store.blobs!
  if (!notes.has("read")) {
    const sent = yield* attached(app)
    const shown: Message.FilePart = { ...sent, source: { _tag: "bytes", base64: Base64.encode(plan) } }
    const running = begin(app, { runId, sessionId, prompt: [{ _tag: "text", text: prompt }, shown] })
    const held = yield* settle(app, running, doubtOnly)
    if (isHeld(held)) yield* unless("RunEnded")(app.store.send(runId, { messageId: "m1", content: [sent] }))
    yield* settle(app, app.go({ runId }))
    const kept = yield* blobs.uses([runId])
    if (!kept.some(({ ref }) => ref.bytes === plan.length))
      return yield* Effect.die(new Error("The run has lost its file."))
    for (const {
      ref: { bytes, sha256 }
    } of kept) {
      const found = yield* Stream.runFold(
        blobs.read(sha256),
        () => 0,
        (count, piece) => count + piece.length
      )
      if (found !== bytes) return yield* Effect.die(new Error(`${found} of ${bytes} bytes are there.`))
    }
    notes.set("read", "yes")
  }
  yield* unless("RunNotFound")(app.store.remove(runId))
  // A lease that a process could not give back keeps the run until it expires.
  if (yield* isThere(app, runId)) return yield* new StillThere({ runId })
  removed.add(runId)
  app.world.clock.jump(2 * BlobPort.graceTime)
  yield* app.store.prune({ endedBefore: 0 })
  const left = yield* databases[0]!.unusedContents
  if (left > 0) yield* Effect.die(new Error(`${left} rows of contents stay.`))
}

const looks = Array.from({ length: 66 }, (_, index) => ["look", index] as const)

/** All scenarios. */
export const scenarios: ReadonlyArray<Scenario> = [
  scenario("open", byTurn("Done."), startAndSettle(), { fresh: true }),
  scenario("contents", byTurn(calls(["charge"])), attaching, { core: true }),
  scenario("plain", byTurn("Done."), startAndSettle()),
  scenario("reads", byTurn(calls(["look", 1], ["look", 2], ["look", 3])), startAndSettle()),
  scenario("act", byTurn(calls(["note"])), startAndSettle(), { core: true }),
  scenario("approve", byTurn(calls(["charge"])), startAndSettle(), { core: true }),
  scenario("deny", byTurn(calls(["charge"])), startAndSettle(denying)),
  scenario("edit", byTurn(calls(["charge"])), startAndSettle(editing)),
  scenario(
    "one-by-one",
    byTurn(calls(["charge", 1], ["charge", 2])),
    startAndSettle(honest, { oneByOne: true }),
    {
      core: true
    }
  ),
  scenario("question", byTurn(question, calls(["note"])), startAndSettle()),
  scenario("idempotent", byTurn(calls(["put", 1], ["put", 2])), startAndSettle()),
  scenario("reconcile", byTurn(calls(["book", 1], ["note", 2])), startAndSettle(), { core: true }),
  scenario(
    "mixed",
    byTurn(
      calls(["look"], ["note", 1], ["charge", 2], ["look"], ["charge", 3]),
      calls(["put", 4], ["book", 5])
    ),
    startAndSettle(),
    { core: true }
  ),
  scenario("sub-agent", delegating, startAndSettle(), { core: true, agent: withAssistant }),
  scenario("team", conducting, startAndSettle(), { core: true, agent: withTeam }),
  scenario("cancel a team", conducting, cancelling, { agent: withTeam }),
  scenario(
    "end one of a team",
    conducting,
    function* (app) {
      let result = yield* settle(app, start(app), doubtOnly)
      if (isHeld(result)) {
        const branch = Id.childRunId(Id.toolCallId(runId, 1, 1))
        yield* app.send(branch, `And be quick, ${canary}.`, "m1")
        yield* app.cancel(branch, `changed my mind about ${canary}`)
        result = yield* app.go({ runId })
      }
      return yield* settle(app, result)
    },
    { agent: withTeam }
  ),
  scenario("cancel", byTurn(calls(["note"], ["charge"])), cancelling),
  scenario("top-up", byTurn(calls(["note"]), calls(["charge"])), function* (app) {
    const result = yield* begin(app, { runId, sessionId, prompt, limits: { maxTurns: 1 } })
    return yield* settle(app, result)
  }),
  scenario("expiry", byTurn(calls(["transfer"]), calls(["note"])), function* (app) {
    const result = yield* settle(app, start(app), doubtOnly)
    if (!isHeld(result)) return result
    app.world.clock.jump(2 * 3_600_000)
    return yield* settle(app, app.go({ runId }))
  }),
  scenario("timer", byTurn(calls(["rest"]), calls(["note"])), function* (app) {
    const result = yield* settle(app, start(app), doubtOnly)
    if (!isHeld(result)) return result
    app.world.clock.jump(2 * 3_600_000)
    return yield* settle(app, app.go({ runId }))
  }),
  // The result of each order is delivered by its token, also if its process died before it had recorded that it waits.
  scenario("complete", byTurn(calls(["order", 1], ["order", 2])), function* (app) {
    let result = yield* settle(app, start(app), ordering)
    for (let round = 0; round < 10 && isHeld(result); round += 1) {
      yield* deliver(app)
      result = yield* settle(app, app.go({ runId }), ordering)
    }
    const said = JSON.stringify(result.state.history)
    if (said.split(delivered).length !== 3) {
      return yield* Effect.die(new Error("A delivered result is not in the history, or twice."))
    }
    return result
  }),
  scenario("session", byTurn(calls(["charge"], ["note"])), function* (app) {
    // The grant of the first run covers the second one's call.
    yield* settle(app, start(app), granting)
    return yield* playNext(app, "run-2")
  }),
  // The histories fill more than one chunk.
  scenario("long", byTurn(calls(...looks), calls(["charge"])), function* (app) {
    yield* settle(app, start(app))
    yield* playNext(app, "run-2")
    return yield* playNext(app, "run-3")
  }),
  scenario("revoke", byTurn(calls(["charge", 1]), question, calls(["charge", 2])), revoking(granting)),
  // The granted call waits behind one that a person decides, and the grant is revoked meanwhile.
  scenario(
    "revoke behind",
    byTurn(calls(["charge", 1]), calls(["transfer", 2], ["charge", 3])),
    revoking(granting)
  ),
  // The grant of a session is revoked in its first run; the session's next run has a copy without the revocation.
  scenario("revoke elsewhere", byTurn(calls(["charge"])), function* (app) {
    yield* settle(app, start(app), granting)
    yield* app.revoke(runId, Id.grantId(firstRequest))
    return yield* playNext(app, "run-2")
  }),
  // The fork has the original's state with the grant, which was revoked before the fork.
  scenario("fork after a revocation", byTurn(calls(["charge"])), function* (app) {
    yield* settle(app, start(app), granting)
    yield* app.revoke(runId, Id.grantId(firstRequest))
    yield* playFork(app)
    yield* hasAsked(app, forkId)
  }),
  // The grant covers the session's next run; the one after it opens a request, because the grant has expired.
  scenario("expiring grant", byTurn(calls(["charge"])), function* (app) {
    const { clock, notes } = app.world
    const hour = 3_600_000
    if (!notes.has("from")) notes.set("from", String(clock.currentTimeMillisUnsafe()))
    const from = Number(notes.get("from"))
    const choose = grantingFor({ scope: "session", arguments: {}, expiresAt: from + hour })
    yield* settle(app, start(app), choose)
    yield* playNext(app, "run-2")
    const late = from + 2 * hour - clock.currentTimeMillisUnsafe()
    if (late > 0) clock.jump(late)
    const result = yield* playNext(app, "run-3")
    yield* hasAsked(app, result.runId)
    return result
  }),
  // A background sub-agent is held when another agent takes the conversation over; then its call is approved.
  scenario("handoff beside a held sub-agent", handingOverAtWork, startAndSettle(), { agent: withNamesakes }),
  // The lead's grant covers its background sub-agent, until it is revoked while that is held.
  scenario(
    "background under a grant",
    grantingToHelper,
    revoking(grantingFor({ scope: "run", arguments: {}, inherit: true })),
    { agent: withHelper }
  ),
  // The archive builds on a run that exists and is pruned at the same time: it stays, or comes back with the archive.
  scenario(
    "import beside a prune",
    byTurn(calls(["charge"])),
    function* (app) {
      const second = app.second!
      const { clock, notes } = app.world
      if (!notes.has("archive") || (yield* isThere(app, runId)) || (yield* isThere(app, firstRun))) {
        if (!notes.has("archive")) {
          yield* inSession(doubtOnly)(app)
          notes.set("before", JSON.stringify(yield* app.stored(exportRun(firstRun))))
          notes.set("archive", JSON.stringify(yield* app.stored(exportRun(runId))))
        }
        yield* unless("RunNotFound")(app.store.remove(runId))
        yield* unless("RunNotFound")(app.store.remove(firstRun))
      }
      const imported = (name: string) =>
        unless("RunExists")(second.stored(importRun(JSON.parse(notes.get(name)!))))
      if (!(yield* isThere(second, runId))) {
        yield* imported("before")
        const prune = second.store.prune({ endedBefore: 2 * clock.currentTimeMillisUnsafe() })
        yield* Effect.all([imported("archive"), prune], { concurrency: 2 })
      }
      return yield* settle(second, second.go({ runId }))
    },
    { two: true }
  ),
  // A grant for one agent's tool, and another agent with a tool of that name that takes the conversation over.
  scenario("handoff", handingOver, startAndSettle(granting), { agent: withBilling }),
  // The lead fails beside a held background sub-agent; after the lead is resumed, the sub-agent can be decided.
  scenario(
    "failed lead",
    failingUntilMended,
    function* (app) {
      const { notes } = app.world
      const result = yield* start(app)
      if (!notes.has(mended)) {
        const failed = yield* settle(app, result, ownOnly)
        if (failed.status !== "error") return yield* Effect.die(new Error(`The run is ${failed.status}.`))
        notes.set(mended, "")
      }
      return yield* settle(app, app.go({ runId }))
    },
    { core: true, agent: withMendable }
  ),
  // A conductor without a slot stores the run, and a worker takes its message; neither starts it. Then a slot is free.
  scenario("queue", byTurn(calls(["charge", 1])), function* (app) {
    const { notes } = app.world
    const conductor = { name: "nightly", isQueued: true }
    yield* unless("RunExists")(app.start({ runId, sessionId, prompt, "~conductor": conductor }))
    if (!notes.has("slot")) {
      yield* app.send(runId, `And be quick, ${canary}.`, "m1")
      yield* app.recover
      const { events, head } = yield* app.store.load(runId)
      if (head.status !== "held" || events.some(({ _tag }) => _tag === "model.answered")) {
        return yield* Effect.die(new Error("The run was started without a slot."))
      }
      notes.set("slot", "")
    }
    return yield* settle(app, app.go({ runId, "~queued": "start" }))
  }),
  scenario("message", byTurn(calls(["charge"])), function* (app) {
    let result = yield* settle(app, start(app), doubtOnly)
    const said = "And be quick."
    const { events } = yield* app.store.load(runId)
    const was = events.some(
      (event) => event._tag === "message.queued" && Message.textOf(event.content) === said
    )
    if (!was && isHeld(result)) result = yield* app.go({ runId, message: said })
    return yield* settle(app, result)
  }),
  scenario("send", byTurn(calls(["note"], ["charge"])), function* (app) {
    let result = yield* settle(app, start(app), doubtOnly)
    if (isHeld(result)) {
      yield* app.send(runId, `And be quick, ${canary}.`, "m1")
      yield* app.send(runId, "And thorough.", "m2")
      result = yield* app.go({ runId })
    }
    return yield* settle(app, result)
  }),
  scenario("fork", byTurn(calls(["note"]), calls(["charge"])), function* (app) {
    yield* settle(app, start(app))
    return yield* playFork(app)
  }),
  scenario("compaction", talking, startAndSettle(), {
    // The second answer fills the context, so that the third call needs a summary.
    contextPolicy: ContextPolicy.compacting({ contextTokens: 6000 })
  }),
  scenario("deny-and-stop", byTurn(calls(["charge", 1], ["charge", 2])), function* (app) {
    const result = yield* start(app)
    const last = Id.requestId(runId, 2)
    if (isHeld(result)) {
      yield* decide(app, { _tag: "deny", requestId: last, by: "bob", then: "stop", message: "Stop." })
    }
    return yield* settle(app, app.go({ runId }))
  }),
  scenario(
    "move",
    byTurn(calls(["note", 1], ["charge", 2]), calls(["charge", 3])),
    moving(function* (app) {
      const result = yield* settle(app, start(app), doubtOnly)
      // The decision is passed to `resume`.
      if (isHeld(result)) {
        for (const request of result.interruptions) yield* decide(app, honest(request, app)!)
      }
    }),
    { two: true, core: true }
  ),
  scenario("move-session", byTurn(calls(["charge"])), moving(inSession(doubtOnly)), { two: true }),
  scenario("move-cancelled", byTurn(calls(["look"]), calls(["charge"])), moving(cancelling), { two: true }),
  scenario(
    "remove",
    byTurn(calls(["charge"])),
    removing([runId], startAndSettle(), (app) => unless("RunNotFound")(app.store.remove(runId)))
  ),
  scenario(
    "prune",
    byTurn(calls(["charge"])),
    removing([runId, firstRun], inSession(honest), ({ store, world }) =>
      store.prune({ endedBefore: 2 * world.clock.currentTimeMillisUnsafe() })
    )
  )
]
