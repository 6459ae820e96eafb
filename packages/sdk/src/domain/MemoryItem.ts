/**
 * What memory keeps: items of text, each in one scope, with where they come from.
 *
 * Memory is made of the messages of sessions, and of facts that a model or a program remembered. The journals have what happened; memory is
 * an index over them, and the facts.
 *
 * @since 0.2.0
 */
import * as Schema from "effect/Schema"
import { RunId, SessionId, Timestamp } from "./Id.ts"
import { sha256Of } from "./internal/sha256.ts"
import { UntrustedResult } from "./Untrusted.ts"

/** The kinds of scopes, from the narrowest to the widest. */
export const ScopeKind = Schema.Literals(["session", "agent", "user", "global"])
export type ScopeKind = typeof ScopeKind.Type

const id = Schema.NonEmptyString

/**
 * Where an item belongs, and where it is found: in a session, with all runs of an agent, with all runs for a user, or everywhere. An item of
 * one scope is never found in another.
 */
export const Scope = Schema.Union([
  Schema.Literal("global"),
  Schema.Struct({ session: id }),
  Schema.Struct({ agent: id }),
  Schema.Struct({ user: id }),
  // The global scope of a part of memory; see the option `partition`.
  Schema.Struct({ global: id })
])
export type Scope = typeof Scope.Type

/** The scope as one text, by which stores keep it. */
export const scopeKey = (scope: Scope): string => {
  if (scope === "global") return scope
  const [[kind, name] = ["", ""]] = Object.entries(scope)
  return `${kind}:${name.length > longestName ? `sha256-${sha256Of(name)}` : name}`
}

/** Longer names are hashed: an index of a database takes keys of limited length. */
const longestName = 500

/** The scope of a text that {@link scopeKey} made. */
export const scopeOfKey = (key: string): Scope => {
  const at = key.indexOf(":")
  return at < 0 ? "global" : ({ [key.slice(0, at)]: key.slice(at + 1) } as unknown as Scope)
}

/** Who wrote a message. */
export const Role = Schema.Literals(["user", "assistant", "tool"])
export type Role = typeof Role.Type

/** An item of memory. */
export const MemoryItem = Schema.Struct({
  /** The same for the same message of a session, and for the same key of a scope. */
  id: Schema.String,
  scope: Scope,
  kind: Schema.Literals(["message", "fact"]),
  text: Schema.String,
  /** The place in its scope: later items have higher ones. */
  position: Schema.Finite,
  /** When the message was written, or the fact remembered. */
  at: Timestamp,
  /** Of a message. */
  role: Schema.optionalKey(Role),
  /** Of a fact that replaces an earlier one of the same scope and key. */
  key: Schema.optionalKey(Schema.String),
  sessionId: Schema.optionalKey(SessionId),
  /** The sequence number of the message. */
  sequence: Schema.optionalKey(Schema.Natural),
  /** The run that remembered the fact, or that indexed the message. */
  runId: Schema.optionalKey(RunId),
  /** The author of a fact: an agent, or a name that the program gave. */
  by: Schema.optionalKey(Schema.String),
  /** The untrusted results that the run had read when the item was written. Absent if there were none. */
  untrusted: Schema.optionalKey(Schema.Array(UntrustedResult))
})
export type MemoryItem = typeof MemoryItem.Type

/** An item that a search has found. */
export const Recollection = Schema.Struct({
  id: Schema.String,
  /** Higher is better. Comparable within one search. */
  score: Schema.Finite,
  /** The part of the item that fits the search best. */
  text: Schema.String,
  at: Timestamp,
  kind: Schema.Literals(["message", "fact"]),
  role: Schema.optionalKey(Role),
  key: Schema.optionalKey(Schema.String),
  /** Set if the item was written by a run that had read untrusted results. */
  untrusted: Schema.optionalKey(Schema.Literal(true))
})
export type Recollection = typeof Recollection.Type

/** What a run retrieved from memory for a message of the user. Models see it until the next message of the user. */
export const Retrieved = Schema.Struct({
  /** The sequence number of the message. */
  sequence: Schema.Natural,
  /** When it was retrieved. */
  at: Timestamp,
  items: Schema.Array(Recollection)
})
export type Retrieved = typeof Retrieved.Type
