/**
 * Compares the facts of a call right before its body with those that its request showed, or that its grant is for.
 */
import type * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import type * as Schema from "effect/Schema"
import { lines, sentence } from "../../domain/Display.ts"
import * as Grant from "../../domain/Grant.ts"
import { hasDenial } from "../../domain/internal/denials.ts"
import { sameJson } from "../../domain/internal/json.ts"
import { callIdOf } from "../../domain/Interruption.ts"
import type { ToolCall } from "../../domain/RunState.ts"
import { type AgentRun, stateOf } from "../internal/AgentRun.ts"
import { holds, type Judging, lapsed, releaseOf, type Standing } from "./authorize.ts"
import { deniedBefore } from "./deniedBefore.ts"
import { failUnread, readFacts, unreadText } from "./facts.ts"
import { findGrant } from "./findGrant.ts"
import { openInDoubt, shownOf } from "./openRequest.ts"

/**
 * The standing of a call whose authorization holds otherwise. `value` is what the body would receive. Returns `undefined` if the call
 * does not start: the run was stopped, or the facts cannot be read.
 */
export function* factsStanding(
  judging: Judging,
  value: unknown
): Effect.fn.Return<Exclude<Standing, { readonly _tag: "denied" | "changed" }> | undefined> {
  const { call, entry, mayHaveRun, run } = judging
  const { definition, tool } = entry
  const release = releaseOf(run, call)
  // The tool, a rule or a policy allowed the call: no one has seen facts of it.
  if (release === undefined && call.grantId === undefined && !hasDenial(run.drive.state, tool.name))
    return holds
  const read = yield* readFacts(run, call, tool, value)
  if (read === undefined) return undefined
  if (Exit.isFailure(read)) {
    return mayHaveRun
      ? openInDoubt(run, call, unreadText(run, tool, read.cause))
      : failUnread(run, call, tool, read.cause)
  }
  const facts = read.value
  const restated = (
    before: Schema.Json | undefined,
    reason: string
  ): Standing & { readonly _tag: "restated" } => {
    const were =
      before === undefined ? "There were none." : sentence`They were ${lines(JSON.stringify(before))}.`
    return { _tag: "restated", reason: `${reason} ${were}`, facts }
  }
  if (release === undefined) {
    // An equal call may have been denied since.
    if ((yield* deniedBefore(run, definition, shownOf(call), facts)) !== undefined)
      return lapsed(sentence`${tool.name} was denied with the same arguments since.`)
    const found = findGrant(run, ({ id }) => id === call.grantId)
    if (found === undefined || Grant.coversFacts(found.grant, facts))
      return { _tag: "holds", facts: found === undefined ? undefined : equalFacts(found.grant) }
    const reason = sentence`The grant ${found.grant.id} is for other facts of ${tool.name}.`
    return mayHaveRun ? restated(equalFacts(found.grant), reason) : lapsed(reason)
  }
  const { decision, request } = release
  const shown =
    "facts" in request ? request.facts : decision._tag === "retry" ? shownFacts(run, call) : undefined
  // A retry is about a call that may have run, and its request need not show facts.
  if (sameJson(shown, facts) || (shown === undefined && decision._tag === "retry"))
    return { _tag: "holds", facts: shown }
  return restated(shown, sentence`The facts of ${tool.name} have changed since.`)
}

const equalFacts = ({ facts }: Grant.Grant): Schema.Json | undefined =>
  typeof facts === "object" ? facts.equal : undefined

/** The facts that the last request about a call showed that had any. */
const shownFacts = (run: AgentRun, call: ToolCall): Schema.Json | undefined => {
  const last = stateOf(run).requests.findLast(
    ({ request }) => callIdOf(request) === call.id && "facts" in request && request.facts !== undefined
  )
  return last !== undefined && "facts" in last.request ? last.request.facts : undefined
}
