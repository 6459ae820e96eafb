/**
 * The working time of a run: the time in which a process drives it.
 */
import type { RunState } from "../RunState.ts"

/** Applies `f` to a run and to the sub-agents in it. A sub-agent that `isIn` refuses is left out with everything below it. */
export const inTree = (
  state: RunState,
  f: (state: RunState) => RunState,
  isIn: (child: RunState) => boolean = () => true
): RunState => {
  const after = f(state)
  const { background, calls } = after
  // Most runs have no sub-agents: nothing is copied for those.
  const hasChildren = calls.some(({ child }) => child !== undefined)
  if (background === undefined && !hasChildren) return after
  const inside = <A extends { readonly child?: RunState }>(holder: A): A =>
    holder.child === undefined || !isIn(holder.child)
      ? holder
      : { ...holder, child: inTree(holder.child, f, isIn) }
  return {
    ...after,
    ...(hasChildren ? { calls: calls.map(inside) } : {}),
    ...(background === undefined ? {} : { background: background.map(inside) })
  }
}

/** Books the working time of a run that its process has left, and of the sub-agents in it. */
export const paused = (state: RunState, at: number): RunState =>
  inTree(state, (run) => {
    const { workingSince, ...rest } = run
    if (workingSince === undefined) return run
    return Object.assign(rest, { workedMs: (run.workedMs ?? 0) + Math.max(0, at - workingSince) })
  })

/**
 * Starts the working time of a run that a process works on again, and of its running sub-agents. A held sub-agent starts when it is
 * resumed itself. The time of a process that died is unknown and is not counted.
 */
export const resumed = (state: RunState, at: number): RunState =>
  inTree(
    state,
    (run) => ({ ...run, workingSince: at }),
    ({ status }) => status === "running"
  )
