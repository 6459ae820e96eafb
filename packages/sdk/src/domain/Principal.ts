/**
 * Who decided, granted or revoked: an id, what kind of party it names, and how the program came to know it.
 *
 * Fermata authenticates no one. A program that does says so in `authenticated`; a plain string in place of a principal means a
 * person whom no one verified.
 *
 * @since 0.1.0
 */
import * as Schema from "effect/Schema"

/**
 * A party that decides.
 *
 * - `person`: a human.
 * - `agent`: another agent, by its name or run id.
 * - `service`: a program without a person behind it, such as a rule engine or a pipeline.
 * - `policy`, `expiry`: Fermata itself, by an approval policy or because time ran out.
 */
export const Principal = Schema.Struct({
  id: Schema.String,
  kind: Schema.Literals(["person", "agent", "service", "policy", "expiry"]),
  /** How the program authenticated the party, such as `oidc` or `mtls`. Absent: not verified. */
  authenticated: Schema.optionalKey(Schema.String)
})
export type Principal = typeof Principal.Type

/** What a stored record says about its author: the id as text, and the principal where the program gave one. */
export interface Attributed {
  readonly by: string
  readonly principal?: Principal
}

/** The principal of a record. A record with a plain `by` names an unverified person, or `expiry`. */
export const of = ({ by, principal }: Attributed): Principal =>
  principal ?? { id: by, kind: by === "expiry" ? "expiry" : "person" }

/** The fields of a record that this party made. A plain string stays one. */
export const attribute = (by: string | Principal): Attributed =>
  typeof by === "object" && by !== null ? { by: by.id, principal: by } : { by }

/** The same fields from input that may be anything: the caller's decoder refuses what is malformed. */
export const attributeUnknown = (input: unknown): unknown => {
  if (typeof input !== "object" || input === null || !("by" in input)) return input
  const { by } = input
  if (typeof by !== "object" || by === null || !("id" in by)) return input
  return { ...input, by: by.id, principal: by }
}
