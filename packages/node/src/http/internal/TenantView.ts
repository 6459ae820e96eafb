/**
 * The backend as one caller sees it: with a tenant, only runs whose context has the tenant exist. A run of another tenant is not found, as if
 * it did not exist.
 */
import { type RunId, runOfRequest, lineOf } from "@fermata/sdk/domain/Id"
import { RequestNotFound } from "@fermata/sdk/domain/Rejection"
import { RunNotFound } from "@fermata/sdk/store/RunStoreError"
import * as Effect from "effect/Effect"
import type { InboxQuery, MessagesQuery, RunsQuery, SessionsQuery } from "../ApiModel.ts"
import type { KnownCaller } from "./authenticate.ts"
import type { Backend, Deciding, Fault, Plane } from "./Backend.ts"

/** The number of runs whose tenants are remembered. */
const mostRemembered = 100_000

/** The most entries of a page, and the number that is read at a time. */
const largestPage = 1000

/** The tenants of runs, and the planes of tenants. Shared by all requests of a server. */
export class Tenants {
  readonly backend: Backend
  readonly key: string
  private readonly planes = new Map<string | undefined, Promise<Plane>>()
  private readonly known = new Map<string, unknown>()

  constructor(backend: Backend, key: string) {
    this.backend = backend
    this.key = key
  }

  /** The plane of a tenant, made with its first request. */
  plane(tenant: string | undefined): Effect.Effect<Plane, Fault> {
    return Effect.tryPromise({
      try: () => {
        const known = this.planes.get(tenant)
        if (known !== undefined) return known
        const context = tenant === undefined ? undefined : { [this.key]: tenant }
        const made = Effect.runPromise(this.backend.makePlane(context))
        this.planes.set(tenant, made)
        made.catch(() => this.planes.delete(tenant))
        return made
      },
      catch: (error) => error as Fault
    })
  }

  /**
   * The tenant of a run, which is in its context. Remembered if the time at which the run was created is known, since another run could get
   * the id of a removed one.
   */
  tenantOf(runId: string, createdAt?: number): Effect.Effect<unknown, Fault> {
    return Effect.suspend(() => {
      const { root } = lineOf(runId)
      const place = createdAt === undefined ? undefined : `${createdAt} ${root}`
      if (place !== undefined && this.known.has(place)) return Effect.succeed(this.known.get(place))
      return Effect.map(this.backend.contextOf(root), (context) => {
        const tenant = Object.hasOwn(context, this.key) ? context[this.key] : undefined
        if (this.known.size >= mostRemembered) this.known.clear()
        if (place !== undefined) this.known.set(place, tenant)
        return tenant
      })
    })
  }
}

export class TenantView {
  private readonly tenants: Tenants
  private readonly backend: Backend
  private readonly caller: KnownCaller

  constructor(tenants: Tenants, caller: KnownCaller) {
    this.tenants = tenants
    this.backend = tenants.backend
    this.caller = caller
  }

  get plane(): Effect.Effect<Plane, Fault> {
    return this.tenants.plane(this.caller.tenant)
  }

  runs(query: RunsQuery) {
    return this.page(
      query,
      this.backend.runs,
      (head) => head,
      ({ runId }) => runId
    )
  }

  sessions(query: SessionsQuery) {
    return this.page(
      query,
      this.backend.sessions,
      ({ last }) => last,
      ({ last }) => last.runId
    )
  }

  inbox(query: InboxQuery) {
    return this.page(
      query,
      this.backend.inbox,
      (item) => item,
      ({ request }) => request.requestId
    )
  }

  run(runId: string) {
    return Effect.andThen(this.requireOwn(runId), this.backend.run(runId))
  }

  /** The messages of the session of a run. */
  messagesOfRun(runId: string, page: MessagesQuery) {
    return Effect.flatMap(this.run(runId), ({ sessionId }) => this.backend.messages(sessionId, page))
  }

  /** The messages of a session. A session without an own run has none, as one that does not exist. */
  messages(sessionId: string, page: MessagesQuery) {
    const newest = this.backend.runs({ sessionId: sessionId as never, limit: 1 })
    return Effect.flatMap(newest, ([last]) =>
      last === undefined
        ? Effect.succeed([])
        : Effect.flatMap(this.isOwn(last.runId), (isOwn) =>
            isOwn ? this.backend.messages(sessionId, page) : Effect.succeed([])
          )
    )
  }

  decide(given: Deciding) {
    return Effect.andThen(
      this.requireRequest(given.requestId),
      Effect.suspend(() => this.backend.decide(this.authored(given)))
    )
  }

  decideAll(given: ReadonlyArray<Deciding>) {
    return Effect.andThen(
      Effect.forEach(given, ({ requestId }) => this.requireRequest(requestId), { discard: true }),
      Effect.suspend(() => this.backend.decideAll(given.map((one) => this.authored(one))))
    )
  }

  cancel(runId: string, reason: string | undefined) {
    const { principal = "the caller" } = this.caller
    const by = typeof principal === "string" ? principal : principal.id
    return Effect.andThen(this.requireOwn(runId), this.backend.cancel(runId, reason ?? `cancelled by ${by}`))
  }

  fork(...given: Parameters<Backend["fork"]>) {
    return Effect.andThen(this.requireOwn(given[0]), this.backend.fork(...given))
  }

  send(...given: Parameters<Backend["send"]>) {
    return Effect.andThen(this.requireOwn(given[0]), this.backend.send(...given))
  }

  /** A decision with its author, who is the caller. */
  private authored(given: Deciding): Deciding {
    const { principal } = this.caller
    return principal === undefined ? given : { ...given, by: principal }
  }

  private isOwn(runId: string, createdAt?: number): Effect.Effect<boolean, Fault> {
    const { tenant } = this.caller
    return tenant === undefined
      ? Effect.succeed(true)
      : Effect.map(this.tenants.tenantOf(runId, createdAt), (found) => found === tenant)
  }

  private requireOwn(runId: string): Effect.Effect<void, Fault> {
    return Effect.flatMap(this.isOwn(runId), (isOwn) =>
      isOwn ? Effect.void : Effect.fail(new RunNotFound({ runId: runId as RunId }))
    )
  }

  private requireRequest(requestId: string): Effect.Effect<void, Fault> {
    if (this.caller.tenant === undefined) return Effect.void
    const runId = runOfRequest(requestId)
    const notFound = Effect.fail(new RequestNotFound({ requestId }))
    return runId === undefined
      ? notFound
      : Effect.matchEffect(this.isOwn(runId), {
          onSuccess: (isOwn) => (isOwn ? Effect.void : notFound),
          onFailure: (error) => (error instanceof RunNotFound ? notFound : Effect.fail(error))
        })
  }

  /** A page of the caller's own entries: pages of the store are read until it is full. */
  private page<Query extends { readonly limit?: number; readonly after?: string }, Item>(
    query: Query,
    read: (query: Query) => Effect.Effect<ReadonlyArray<Item>, Fault>,
    runOf: (item: Item) => { readonly runId: string; readonly createdAt?: number },
    cursorOf: (item: Item) => string
  ): Effect.Effect<ReadonlyArray<Item>, Fault> {
    if (this.caller.tenant === undefined) return read(query)
    const limit = Math.min(query.limit ?? 100, largestPage)
    return Effect.gen({ self: this }, function* () {
      const own: Array<Item> = []
      let { after } = query
      while (true) {
        const given: Query = { ...query, limit: largestPage, ...(after === undefined ? {} : { after }) }
        const items = yield* read(given)
        for (const item of items) {
          const { createdAt, runId } = runOf(item)
          // A run that was deleted meanwhile is no one's.
          const isOwn = Effect.catch(this.isOwn(runId, createdAt), (error) =>
            error instanceof RunNotFound ? Effect.succeed(false) : Effect.fail(error)
          )
          if (yield* isOwn) own.push(item)
          if (own.length >= limit) return own
        }
        const last = items.at(-1)
        if (items.length < largestPage || last === undefined) return own
        after = cursorOf(last)
      }
    })
  }
}
