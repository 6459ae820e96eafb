/**
 * Principals: the parties that decide, grant, revoke and reopen. A principal has an id, a kind, and how the program authenticated it.
 *
 * Fermata does not authenticate. A program that does records how in `authenticated`. A plain string instead of a principal means an
 * unverified person.
 *
 * @since 0.1.0
 */
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import { sentence } from "./Display.ts"
import { atMost, misfits, oneOf, required, shapeOf, string } from "./internal/misfits.ts"
import { isBlank, isReserved } from "./internal/names.ts"
import { readOnce } from "./internal/untyped.ts"
import { TaggedError } from "./TaggedError.ts"

/**
 * A party that decides, grants, revokes or reopens. A caller's `id` must have at least one visible character. Only a `person` reopens.
 *
 * - `person`: a human.
 * - `agent`: another agent, by its name or run id.
 * - `service`: a program that acts without a person, such as a rule engine or a pipeline.
 * - `policy`, `expiry`: Fermata itself, by an approval policy or because a request expired. A caller's principal of these kinds is
 *   refused, as is an id that equals these names or looks like them.
 */
export const Principal = Schema.Struct({
  id: Schema.String,
  kind: Schema.Literals(["person", "agent", "service", "policy", "expiry"]),
  /** How the program authenticated the party, such as `oidc` or `mtls`. Absent: unverified. */
  authenticated: Schema.optionalKey(Schema.String)
})
export type Principal = typeof Principal.Type

/**
 * The author of a stored record: the id as text, and the principal. The principal is absent if the author is `expiry`, or if the program gave
 * a plain string, which means an unverified person.
 */
export interface Attributed {
  readonly by: string
  readonly principal?: Principal
}

/** The principal of a record. A record without one names an unverified person, or `expiry`. */
export const of = ({ by, principal }: Attributed): Principal =>
  principal ?? { id: by, kind: by === "expiry" ? "expiry" : "person" }

/**
 * The `by` of a caller is malformed, blank or reserved for Fermata, contradicts the given principal, or is no person where a denial is
 * reopened. Nothing was changed. A decision with such a `by` is refused with `DecisionMalformed` instead.
 */
export class PrincipalInvalid extends TaggedError<PrincipalInvalid>()("PrincipalInvalid", {
  problem: Schema.String
}) {
  override get message() {
    return sentence`This principal cannot be recorded: ${this.problem}. Pass a name, or a principal with id and kind.`
  }
}

/** Converts a caller's `by`, a string or a principal, to the fields of a record. Copies what it was given, and refuses anything else. */
export const attribute = (given: unknown): Result.Result<Attributed, PrincipalInvalid> => {
  const own = readOnce(given, 1)
  const fields = attributeUnknown({ by: own })
  const [misfit] = misfits(own, shape, "the principal")
  const problem =
    misfit?.problem ??
    (isAttributed(fields) ? misattribution(fields) : "it is neither a string nor a principal")
  return problem === undefined
    ? Result.succeed(fields as Attributed)
    : Result.fail(new PrincipalInvalid({ problem }))
}

/** The most characters of the id of a party, which is in each record and in texts for models. */
const longestName = 512

/** The keys of a principal. */
export const shape = shapeOf<Principal>({
  id: required(string),
  kind: required({
    ...oneOf("person", "agent", "service"),
    // A reserved kind is refused with a sentence of its own.
    is: (value) => (Principal.fields.kind.literals as ReadonlyArray<unknown>).includes(value)
  }),
  authenticated: atMost(longestName)
})

const isAttributed = Schema.is(Schema.Struct({ by: Schema.String, principal: Schema.optionalKey(Principal) }))

/**
 * The problem of a record's `by` and `principal`; `undefined` if there is none, and for values of wrong types, which the caller's decoder
 * refuses.
 */
export const misattribution = (input: unknown): string | undefined => {
  if (typeof input !== "object" || input === null) return undefined
  const { by, principal } = attributeUnknown(input) as { readonly by?: unknown; readonly principal?: unknown }
  const { principal: given } = input as { readonly principal?: unknown }
  if (typeof by === "string" && isBlank(by)) return 'its "by" is empty'
  if (typeof by === "string" && by.length > longestName)
    return `its "by" is longer than ${longestName} characters`
  for (const one of [principal, given]) {
    if (typeof one !== "object" || one === null) continue
    const { id, kind } = one as { readonly id?: unknown; readonly kind?: unknown }
    if (id !== by) return 'its "by" and its principal name different parties'
    if (isReserved(kind))
      return `its "by" has the kind "${String(kind)}", which only Fermata itself uses: give person, agent or service`
  }
  return isReserved(by)
    ? 'its "by" is a name that only Fermata itself uses, such as "expiry": give the id of the party that decides'
    : undefined
}

/** Splits a principal given as `by` into `by` and `principal`. Returns any other input unchanged, for the caller's decoder. */
export const attributeUnknown = (input: unknown): unknown => {
  if (typeof input !== "object" || input === null || !("by" in input)) return input
  const { by } = input
  if (typeof by !== "object" || by === null || !("id" in by)) return input
  return { ...input, by: by.id, principal: by }
}
