/**
 * Who decided, granted or revoked: an id, what kind of party it names, and how the program came to know it.
 *
 * Fermata authenticates no one. A program that does says so in `authenticated`; a plain string in place of a principal means a
 * person whom no one verified.
 *
 * @since 0.1.0
 */
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import { sentence } from "./Display.ts"
import { keysOf, misfits } from "./internal/misfits.ts"
import { isBlank, isReserved } from "./internal/names.ts"
import { readOnce } from "./internal/untyped.ts"

/**
 * A party that decides. Its id is not blank.
 *
 * - `person`: a human.
 * - `agent`: another agent, by its name or run id.
 * - `service`: a program without a person behind it, such as a rule engine or a pipeline.
 * - `policy`, `expiry`: Fermata itself, by an approval policy or because time ran out. No caller can be one of these, or use their names or
 *   what looks like them.
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

/** Who a caller says to be cannot be put on record. Nothing was changed. */
export class PrincipalInvalid extends Schema.TaggedError<PrincipalInvalid>()("PrincipalInvalid", {
  problem: Schema.String
}) {
  override get message() {
    return sentence`This cannot be recorded as who did it: ${this.problem}. Pass a name, or a principal with id and kind.`
  }
}

/** The fields of a record that this party made. A plain string stays one. */
export const attribute = (given: unknown): Result.Result<Attributed, PrincipalInvalid> => {
  const own = readOnce(given, 1)
  const fields = attributeUnknown({ by: own })
  const [misfit] = misfits(own, shape, "the principal")
  const problem =
    misfit?.problem ??
    (isAttributed(fields) ? misattribution(fields) : "it is neither a text nor a principal")
  return problem === undefined
    ? Result.succeed(fields as Attributed)
    : Result.fail(new PrincipalInvalid({ problem }))
}

/** What may be given as a principal. */
export const shape = keysOf(Object.keys(Principal.fields))

const isAttributed = Schema.is(Schema.Struct({ by: Schema.String, principal: Schema.optionalKey(Principal) }))

/** What is wrong with who a caller says to be; `undefined` where nothing is, or where the caller's decoder refuses it. */
export const misattribution = (input: unknown): string | undefined => {
  if (typeof input !== "object" || input === null) return undefined
  const { by, principal } = attributeUnknown(input) as { readonly by?: unknown; readonly principal?: unknown }
  const { principal: given } = input as { readonly principal?: unknown }
  if (typeof by === "string" && isBlank(by)) return "its by is empty"
  for (const one of [principal, given]) {
    if (typeof one !== "object" || one === null) continue
    const { id, kind } = one as { readonly id?: unknown; readonly kind?: unknown }
    if (id !== by) return "its by and its principal name two parties"
    if (isReserved(kind)) return "its principal is of a kind that only Fermata itself is"
  }
  return isReserved(by) ? "its by is a name that only Fermata itself uses" : undefined
}

/** The same fields from input that may be anything: the caller's decoder refuses what is malformed. */
export const attributeUnknown = (input: unknown): unknown => {
  if (typeof input !== "object" || input === null || !("by" in input)) return input
  const { by } = input
  if (typeof by !== "object" || by === null || !("id" in by)) return input
  return { ...input, by: by.id, principal: by }
}
