/**
 * Folds the events of a compaction: what models see of the history changes, and the history does not.
 */
import type { Compaction } from "../Compaction.ts"
import * as History from "../History.ts"
import type { RunState } from "../RunState.ts"
import { bookUsage } from "./bookUsage.ts"
import { defined } from "./defined.ts"
import type { Event } from "./turn.ts"

export const requested = (state: RunState, { by, reason }: Event<"compaction.requested">): RunState => {
  const { overflows = 0 } = state.compaction ?? {}
  return {
    ...state,
    compacting: { by, reason },
    ...(reason === "overflow" ? { compaction: { ...state.compaction, overflows: overflows + 1 } } : {})
  }
}

export const skipped = (state: RunState): RunState => ({
  ...withoutRequest(state),
  compaction: { ...state.compaction, skippedAt: History.size(state.history) }
})

export const pruned = (state: RunState, { before, cut }: Event<"context.pruned">): RunState => ({
  ...state,
  compaction: { ...state.compaction, cleared: before, ...defined({ cut }) }
})

export const compacted = (state: RunState, event: Event<"context.compacted">): RunState => {
  const { at, cut, kept, more, quality, summary, to, usage } = event
  const { cleared, missed = 0, overflows } = state.compaction ?? {}
  const compaction: Compaction = {
    summary: { text: summary, to, quality, at, ...defined({ kept }) },
    ...defined({
      cleared: cleared !== undefined && cleared > to ? cleared : undefined,
      cut,
      missed: event.missed === true ? missed + 1 : undefined,
      overflows
    })
  }
  const booked = usage === undefined ? state : bookUsage(state, usage)
  const { warned, ...rest } = more === true ? goingOn(booked) : withoutRequest(booked)
  // The context can become nearly full again.
  const others = warned?.filter((budget) => budget !== "context")
  return { ...rest, compaction, ...defined({ warned: others }) }
}

/** The rest of a compaction is performed also if the context has room again. */
const goingOn = (state: RunState): RunState =>
  state.compacting === undefined ? state : { ...state, compacting: { ...state.compacting, reason: "asked" } }

const withoutRequest = (state: RunState): RunState => {
  const { compacting: _, ...rest } = state
  return rest
}

/** The model took the context. Most states have nothing to change. */
export const answeredAgain = (state: RunState): RunState => {
  if (state.compaction?.overflows === undefined) return state
  const { overflows: _, ...compaction } = state.compaction
  return { ...state, compaction }
}

/** Forgets the compactions that did not reach their target, because the limit of the context was changed. */
export const withoutMisses = (state: RunState): RunState => {
  const { compaction } = state
  if (compaction?.missed === undefined && compaction?.overflows === undefined) return state
  const { missed: _, overflows: __, ...rest } = compaction
  return { ...state, compaction: rest }
}

export const setPin = (state: RunState, sequence: number, isPinned: boolean): RunState => {
  const others = (state.pinned ?? []).filter((other) => other !== sequence)
  return { ...state, pinned: isPinned ? [...others, sequence].toSorted((a, b) => a - b) : others }
}
