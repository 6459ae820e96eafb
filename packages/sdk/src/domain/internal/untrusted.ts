/**
 * Finds the untrusted results that a run has read.
 */
import type { RunState, ToolCall } from "../RunState.ts"
import { add, type UntrustedResult } from "../Untrusted.ts"

const none: ReadonlyArray<never> = []

/**
 * The untrusted results of a run: those in its history, and those of the open turn. The results of its sub-agents are among them once the
 * run has theirs.
 */
export const untrustedIn = ({ calls, untrusted = none }: RunState): ReadonlyArray<UntrustedResult> =>
  calls.length === 0 ? untrusted : add(untrusted, untrustedResults(calls))

/** The untrusted results of settled calls, in call order, so that it does not matter which of them came first. */
export const untrustedResults = (calls: ReadonlyArray<ToolCall>): ReadonlyArray<UntrustedResult> => {
  let found: Array<UntrustedResult> | undefined
  for (const { child, id, name, result, tool } of calls) {
    if (result === undefined) continue
    const inside = child === undefined ? none : untrustedIn(child)
    if (result.untrusted !== true && inside.length === 0) continue
    found = [...(found ?? []), ...inside]
    if (result.untrusted === true) found.push({ tool: tool ?? name, callId: id, at: result.at })
  }
  return found ?? none
}

/** The state with further untrusted results in its history. */
export const withUntrusted = (state: RunState, results: ReadonlyArray<UntrustedResult>): RunState =>
  results.length === 0 ? state : { ...state, untrusted: add(state.untrusted ?? none, results) }
