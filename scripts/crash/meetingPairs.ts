/**
 * The pairs of the meetings: the work of the first process, and the operation that the second does beside it.
 */
import { Id } from "@fermata/sdk/domain"
import { exportRun, importRun } from "@fermata/sdk/durable"
import { RunStoreError } from "@fermata/sdk/store"
import type { ScriptedModel } from "@fermata/sdk/testing"
import * as Effect from "effect/Effect"
import {
  byTurn,
  calls,
  conducting,
  handingOver,
  plainAgent,
  prompt,
  withBilling,
  withTeam
} from "./agents.ts"
import type { App, Definition } from "./app.ts"
import { attached, begin, type Choose, decide, granting, honest, settle, unless } from "./user.ts"

type Use = (app: App) => Effect.Effect<unknown, unknown>

/** Two processes, and the work before them. */
export interface Meeting {
  /** The name, such as `parks+cancels`. */
  readonly name: string
  readonly definition: Definition
  /** Whether there are two databases; both processes then work on the second. */
  readonly two: boolean
  /** The work of a process before the two. */
  readonly prepare: Use
  /** The operation of that process at which it crashes. */
  readonly crashesAt: string | undefined
  readonly first: Use
  readonly second: Use
  /** Work that is repeated afterwards, because a process may have crashed before doing it. */
  readonly again: Use
}

const runId = "run" as Id.RunId
const earlier = "run-1" as Id.RunId
const sessionId = "session" as Id.SessionId
const grantId = (runId: Id.RunId) => Id.grantId(Id.requestId(runId, 1))

/** The work of the first process. */
interface First {
  readonly definition: Definition
  readonly two?: boolean
  readonly prepare?: Use
  readonly crashesAt?: string
  readonly use: Use
  readonly again?: Use
  /** The work of the second process. */
  readonly meets: ReadonlyArray<Second>
  /** The run on which it builds, if there is one before it. */
  readonly before?: Id.RunId
  /** The run that gave the grant. */
  readonly grants?: Id.RunId
}

type Second =
  | "approves"
  | "stops"
  | "sends"
  | "revokes"
  | "cancels"
  | "forks"
  | "prunes"
  | "removes"
  | "imports"
  | "attaches"
  | "goes on"
  | "cancels a sub-agent"
  | "sends to a sub-agent"

const start = (app: App) => begin(app, { runId, sessionId, prompt })
const go = (app: App) => app.go({ runId })
const fork = (app: App, runId: Id.RunId, number: number) =>
  app.fork({
    runId,
    prompt,
    newRunId: `fork-${number}` as Id.RunId,
    sessionId: `other-${number}` as Id.SessionId
  })
const plain = (...answers: ReadonlyArray<ScriptedModel.ScriptedAnswer>): Definition => ({
  agent: plainAgent,
  answer: byTurn(...answers)
})

/** Decides only the first request of a run. */
const first =
  (choose: Choose): Choose =>
  (request, app) =>
    request.requestId === Id.requestId(request.runId, 1) ? choose(request, app) : undefined

/** Stores the photo, and starts a run of its own session with it. The content must not be deleted in between. */
const attaching = (app: App, runId: Id.RunId) =>
  Effect.flatMap(attached(app), (file) =>
    begin(app, {
      runId,
      sessionId: `session-of-${runId}` as Id.SessionId,
      prompt: [{ _tag: "text", text: prompt }, file]
    })
  ).pipe(
    Effect.catch((error) =>
      error instanceof RunStoreError.RunStoreError && error.reason._tag === "BlobMissing"
        ? Effect.die(error)
        : Effect.fail(error)
    )
  )

/** Starts the run and decides its first request, without resuming it. */
const upToDecision =
  (choose: Choose): Use =>
  (app) =>
    Effect.flatMap(start(app), (result) =>
      result.status !== "interrupted"
        ? Effect.void
        : Effect.forEach(result.interruptions, (request) => {
            const decision = first(choose)(request, app)
            return decision === undefined ? Effect.void : decide(app, decision)
          })
    )

/** A run of the session that has ended and has left a grant. */
const afterGrant: Use = (app) =>
  Effect.gen(function* () {
    yield* settle(app, begin(app, { runId: earlier, sessionId, prompt }), granting)
    app.world.clock.jump(1000)
  })

const archive = "archive"

const imported = (app: App) =>
  Effect.suspend(() => app.second!.stored(importRun(JSON.parse(app.world.notes.get(archive)!))))

const firsts: { readonly [name: string]: First } = {
  parks: {
    definition: plain(calls(["note", 1], ["charge", 2])),
    use: start,
    meets: ["approves", "stops", "sends", "cancels", "forks", "removes", "goes on"]
  },
  "is recovered": {
    definition: plain(calls(["put", 1], ["charge", 2])),
    prepare: start,
    crashesAt: "put",
    use: ({ recover }) => recover,
    meets: ["approves", "stops", "sends", "cancels", "forks", "prunes", "removes", "goes on"]
  },
  completes: {
    definition: plain(calls(["note", 1])),
    use: start,
    meets: ["sends", "cancels", "forks", "prunes", "removes"]
  },
  releases: {
    definition: plain(calls(["charge", 1], ["charge", 2]), calls(["note", 3])),
    prepare: upToDecision(honest),
    use: go,
    meets: ["approves", "stops", "sends", "cancels", "forks", "removes", "goes on"]
  },
  "uses a grant": {
    definition: plain(calls(["charge", 1], ["note", 2])),
    prepare: afterGrant,
    use: start,
    before: earlier,
    grants: earlier,
    meets: ["revokes", "cancels", "sends", "forks", "prunes", "removes"]
  },
  attaches: {
    definition: plain(calls(["charge", 1])),
    prepare: (app) => Effect.flatMap(attaching(app, earlier), () => settle(app, app.go({ runId: earlier }))),
    use: (app) => attaching(app, runId),
    before: earlier,
    meets: ["attaches", "sends", "cancels", "prunes", "removes"]
  },
  expires: {
    definition: plain(calls(["transfer", 1]), calls(["charge", 2])),
    prepare: (app) =>
      Effect.andThen(
        start(app),
        Effect.sync(() => app.world.clock.jump(2 * 3_600_000))
      ),
    use: go,
    meets: ["approves", "stops", "sends", "cancels"]
  },
  forks: {
    definition: plain(calls(["charge", 1])),
    prepare: afterGrant,
    use: (app) => fork(app, earlier, 1),
    before: earlier,
    grants: earlier,
    meets: ["revokes", "forks", "prunes", "removes"]
  },
  "hands over": {
    definition: { agent: withBilling, answer: handingOver },
    prepare: upToDecision(granting),
    use: go,
    grants: runId,
    meets: ["approves", "stops", "sends", "revokes", "cancels", "forks"]
  },
  "leads a team": {
    definition: { agent: withTeam, answer: conducting },
    use: start,
    meets: ["approves", "stops", "sends to a sub-agent", "cancels a sub-agent", "cancels"]
  },
  imports: {
    definition: {
      agent: plainAgent,
      answer: (request) =>
        byTurn(request.runId === earlier ? calls(["charge", 1]) : calls(["charge", 1], ["transfer", 2]))(
          request
        )
    },
    two: true,
    prepare: (app) =>
      Effect.gen(function* () {
        const second = app.second!
        yield* afterGrant(app)
        yield* start(app)
        const before = yield* app.stored(exportRun(earlier))
        app.world.notes.set(archive, JSON.stringify(yield* app.stored(exportRun(runId))))
        yield* app.store.remove(runId)
        yield* app.store.remove(earlier)
        yield* second.stored(importRun(before))
      }),
    use: imported,
    again: (app) => unless("RunExists", "SessionBusy")(imported(app)),
    before: earlier,
    grants: earlier,
    meets: ["imports", "revokes", "forks", "prunes", "removes"]
  }
}

/** Decides every open request; without one, the run's first request, for which it may be too late. */
const deciding = (choose: Choose) => (app: App) =>
  Effect.gen(function* () {
    const pending = yield* app.store.pending({ limit: 1000 })
    const asked = pending.length > 0 ? pending : [yield* app.store.request(Id.requestId(runId, 1))]
    for (const { request } of asked) {
      const decision = choose(request, app)
      if (decision !== undefined) yield* decide(app, decision)
    }
  })

const stopping: Choose = ({ _tag, requestId }) =>
  _tag === "approval" ? { _tag: "deny", requestId, by: "bob", then: "stop", message: "Stop." } : undefined

/** From now on these runs may be missing, also when the process that removes them is. */
const mayGo = ({ world }: App, ...runs: ReadonlyArray<Id.RunId>) =>
  Effect.sync(() => runs.forEach((runId) => world.removed.add(runId)))

const branch = Id.childRunId(Id.toolCallId(runId, 1, 1))

const seconds: {
  readonly [name in Second]: (
    app: App,
    given: Pick<First, "before" | "grants">
  ) => Effect.Effect<unknown, unknown>
} = {
  approves: deciding(honest),
  stops: deciding(stopping),
  sends: (app) =>
    Effect.gen(function* () {
      yield* app.send(runId, "And be quick.", "m1")
      yield* app.send(runId, "And be quick.", "m1")
      yield* app.send(runId, "And thorough.", "m2")
    }),
  revokes: (app, { grants = runId }) => app.revoke(grants, grantId(grants)),
  cancels: (app) => app.cancel(runId, "changed my mind"),
  forks: (app, { before = runId }) => fork(app, before, 2),
  prunes: (app) =>
    Effect.andThen(
      mayGo(app, earlier, runId, "fork-1" as Id.RunId),
      app.store.prune({ endedBefore: 2 * app.world.clock.currentTimeMillisUnsafe() })
    ),
  removes: (app, { before = runId }) => Effect.andThen(mayGo(app, before), app.store.remove(before)),
  imports: (app) => app.stored(importRun(JSON.parse(app.world.notes.get(archive)!))),
  attaches: (app) => attaching(app, "run-2" as Id.RunId),
  "goes on": go,
  "cancels a sub-agent": (app) => app.cancel(branch, "changed my mind"),
  "sends to a sub-agent": (app) => app.send(branch, "And be quick.", "m1")
}

/** All pairs. */
export const pairs: ReadonlyArray<Meeting> = Object.entries(firsts).flatMap(([name, first]) =>
  first.meets.map((second) => ({
    name: `${name}+${second}`,
    definition: first.definition,
    two: first.two === true,
    prepare: first.prepare ?? (() => Effect.void),
    crashesAt: first.crashesAt,
    first: first.use,
    again: first.again ?? (() => Effect.void),
    second: (app) => seconds[second](app.second ?? app, first)
  }))
)
