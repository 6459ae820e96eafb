/**
 * The operations of memory over the port of a store.
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { messageOf } from "../../domain/Display.ts"
import type { SessionId } from "../../domain/Id.ts"
import { defined } from "../../domain/internal/defined.ts"
import {
  atMost,
  callable,
  type Kind,
  list as listKind,
  natural,
  nonEmpty,
  oneOf,
  positive,
  shapeOf,
  string
} from "../../domain/internal/misfits.ts"
import { Scope, scopeKey, type ScopeKind } from "../../domain/MemoryItem.ts"
import { OptionsInvalid, problemOf, type Shape } from "../../domain/OptionsInvalid.ts"
import type { RunContext } from "../../domain/RunContext.ts"
import { contextOf } from "../../domain/RunContext.ts"
import type { RunState } from "../../domain/RunState.ts"
import type { MemoryPort, StoredMemory } from "../../store/MemoryPort.ts"
import type { Scrubber } from "../../tool/Scrubber.ts"
import {
  type Fact,
  type Forgettable,
  type Found,
  type MemoryFilter,
  type MemoryOperations,
  type MemoryOptions,
  MemoryUnavailable,
  type RecallOptions
} from "../Memory.ts"
import { chunksOf } from "./passages.ts"
import { itemOf, rowOfFact, rowsOf } from "./rows.ts"
import { makeScopeCache } from "./scopeCache.ts"
import { searchScopes } from "./ScopeIndex.ts"
import { termsOf } from "./terms.ts"

const isScope = Schema.is(Scope)
const scopeKind: Kind = {
  takes: 'a scope: "global", or { session }, { agent }, { user } or { global } with an id',
  is: isScope
}
const scopes: Kind = {
  takes: `${scopeKind.takes}, or a list of them`,
  is: (value) => isScope(value) || (Array.isArray(value) && value.every(isScope))
}
const kinds = ["session", "agent", "user", "global"] as const
const share: Kind = {
  takes: "a number above 0 and up to 0.5",
  is: (value) => typeof value === "number" && value > 0 && value <= 0.5
}

const optionsShape = shapeOf<MemoryOptions>({
  messages: oneOf("session", "agent", "user"),
  retrieve: { each: oneOf(...kinds) },
  user: callable,
  partition: callable,
  share,
  most: positive
})
const factShape = shapeOf<Fact>({
  text: { ...atMost(8000), required: true },
  scope: scopeKind,
  key: { ...atMost(200) },
  by: string,
  source: "anything",
  untrusted: listKind
})
const recallShape = shapeOf<RecallOptions & { readonly "~leftOut"?: unknown }>({
  scope: scopes,
  limit: positive,
  budget: positive,
  "~leftOut": "anything"
})
const filterShape = shapeOf<MemoryFilter>({
  scope: scopeKind,
  kind: oneOf("message", "fact"),
  sessionId: nonEmpty,
  after: natural,
  limit: positive
})

/** The text of a search that is read; what follows is ignored. */
const longestQuery = 4000

const mostFound = 100

const userOf = (context: RunContext): string | undefined => {
  const { user } = context
  return typeof user === "string" && user !== "" ? user : undefined
}

const checked = (of: string, given: unknown, shape: Shape): Effect.Effect<void, OptionsInvalid> =>
  Effect.suspend(() => {
    const problem = problemOf(of, given, shape)
    return problem === undefined ? Effect.void : Effect.fail(problem)
  })

const refused = (of: string, place: string, takes: string): OptionsInvalid =>
  new OptionsInvalid({ of, misfits: [{ place, problem: `${place} takes ${takes}` }] })

/** Makes the operations. Fails if the options are invalid. */
export const makeOperations = (
  port: MemoryPort | undefined,
  scrubber: Required<Scrubber>,
  given: MemoryOptions
): Effect.Effect<MemoryOperations, OptionsInvalid> =>
  Effect.gen(function* () {
    yield* checked("memory", given, optionsShape)
    const { messages = "session", most = 8, partition, share = 0.08, user = userOf } = given
    const { retrieve = messages === "session" ? ["session"] : [messages, "session"] } = given
    const options = { messages, most, share, user, retrieve, ...defined({ partition }) }
    const available = Effect.suspend(() =>
      port === undefined ? Effect.fail(new MemoryUnavailable()) : Effect.succeed(port)
    )
    const cache = port === undefined ? undefined : makeScopeCache(port)
    const fork = Effect.runForkWith(yield* Effect.context<never>())

    let hasWarned = false
    /** The result of a function of the program. One that throws must not keep a run from its commits. */
    const attempt = (
      name: string,
      f: (context: RunContext) => unknown,
      state: RunState,
      instead: unknown
    ): unknown => {
      try {
        return f(contextOf(state))
      } catch (error) {
        if (!hasWarned)
          fork(
            Effect.logWarning(
              `The option ${name} of memory throws, so that runs use the memory of their session only: ${messageOf(error)}`
            )
          )
        hasWarned = true
        return instead
      }
    }

    /** What the names of a run's scopes begin with. `undefined` if its part of memory is not known. */
    const prefixOf = (state: RunState): string | undefined => {
      if (partition === undefined) return ""
      const failed = Symbol("failed")
      const part = attempt("partition", partition, state, failed)
      if (part === undefined) return "/"
      // A slash in the part must not look like the one behind it.
      return typeof part === "string" ? `${encodeURIComponent(part.toWellFormed())}/` : undefined
    }

    const scopeOf = (state: RunState, kind: ScopeKind): Scope | undefined => {
      if (kind === "session") return { session: state.sessionId }
      const prefix = prefixOf(state)
      if (prefix === undefined) return undefined
      switch (kind) {
        case "global":
          return prefix === "" ? "global" : { global: prefix }
        case "agent":
          return { agent: `${prefix}${state.under ?? state.agent.name}` }
        case "user": {
          const id = attempt("user", user, state, undefined)
          return typeof id === "string" && id !== "" ? { user: `${prefix}${id}` } : undefined
        }
      }
    }

    const read = Effect.fnUntraced(function* (ids: ReadonlyArray<string>) {
      const rows = yield* (yield* available).read(ids.slice(0, 1000))
      const byId = new Map(rows.map((row) => [row.id, row]))
      return ids.flatMap((id): ReadonlyArray<StoredMemory> => {
        const row = byId.get(id)
        return row === undefined || row.text === "" ? [] : [row]
      })
    })

    const recall: MemoryOperations["recall"] = Effect.fnUntraced(function* (query, asked = {}) {
      yield* checked("recall", asked, recallShape)
      if (typeof query !== "string") return yield* refused("recall", "the query", "a string")
      yield* available
      const { budget = Infinity, limit = 8, scope = "global", "~leftOut": isLeftOut = () => false } = asked
      const terms = termsOf(query.slice(0, longestQuery))
      if (terms.length === 0 || cache === undefined) return []
      const all = Array.isArray(scope) ? (scope as ReadonlyArray<Scope>) : [scope as Scope]
      const found = searchScopes(yield* cache.read(all.map(scopeKey)), terms, isLeftOut)
      const best = found.slice(0, Math.min(limit, mostFound))
      const rows = new Map((yield* read(best.map(({ id }) => id))).map((row) => [row.id, row]))
      let left = budget
      const kept: Array<Found> = []
      for (const { id, place, score } of best) {
        const row = rows.get(id)
        if (row === undefined) continue
        const text = excerpt(row.text, place)
        left -= Math.ceil(text.length / 3)
        if (left < 0) break
        kept.push({ item: itemOf(row), score, text })
      }
      return kept
    })

    return {
      options,
      remember: Effect.fnUntraced(function* (fact) {
        yield* checked("remember", fact ?? null, factShape)
        const text = scrubber.redact(fact.text).trim()
        if (text === "") return yield* refused("remember", "text", "a text that is not empty")
        const found = yield* available
        const at = yield* Clock.currentTimeMillis
        const key = fact.key === undefined ? undefined : scrubber.redact(fact.key)
        const row = rowOfFact({ ...fact, scope: fact.scope ?? "global", text, ...defined({ key }) }, at)
        yield* found.write([row])
        const [stored] = yield* found.read([row.id])
        return itemOf(stored ?? { ...row, position: 0 })
      }),
      recall,
      read: (ids) => Effect.map(read(ids), (rows) => rows.map(itemOf)),
      list: Effect.fnUntraced(function* (filter = {}) {
        yield* checked("list", filter, filterShape)
        const { scope, sessionId, ...rest } = filter
        const found = yield* available
        const rows = yield* found.list({
          ...rest,
          ...defined({
            scope: scope === undefined ? undefined : scopeKey(scope),
            sessionId: sessionId as SessionId | undefined
          })
        })
        return rows.map(itemOf)
      }),
      forget: Effect.fnUntraced(function* (which) {
        const found = yield* available
        const removal = removalOf(which)
        return removal === undefined
          ? yield* refused("forget", "what is forgotten", "an id, a list of ids, { scope } or { sessionId }")
          : yield* found.forget(removal)
      }),
      "~rows": (state, from, to) =>
        rowsOf(state, scopeOf(state, messages) ?? { session: state.sessionId }, from, to),
      "~scopes": (state, kinds) => kinds.flatMap((kind) => scopeOf(state, kind) ?? []),
      "~port": port
    }
  })

/** The chunk of a text at a place, without the words that it cuts. */
const excerpt = (text: string, place: number): string => {
  const chunks = chunksOf(text)
  const chunk = chunks[place] ?? chunks[0] ?? ""
  if (chunks.length <= 1) return chunk
  const begin = place === 0 ? chunk : `…${chunk.replace(/^\S{1,40}(?=\s)/, "")}`
  return place === chunks.length - 1 ? begin.trim() : `${begin.replace(/(?<=\s)\S{1,40}$/, "").trim()}…`
}

const removalOf = (which: Forgettable): Parameters<MemoryPort["forget"]>[0] | undefined => {
  if (typeof which === "string") return { ids: [which] }
  if (Array.isArray(which))
    return which.every((id) => typeof id === "string") ? { ids: which as ReadonlyArray<string> } : undefined
  if (typeof which !== "object" || which === null) return undefined
  if ("scope" in which && isScope(which.scope) && Object.keys(which).length === 1)
    return { scope: scopeKey(which.scope) }
  return "sessionId" in which && nonEmpty.is(which.sessionId) && Object.keys(which).length === 1
    ? { sessionId: which.sessionId as SessionId }
    : undefined
}
