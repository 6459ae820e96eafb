/**
 * The answer that a model was giving when its run was cancelled.
 */
import * as History from "../History.ts"
import { text } from "../Message.ts"
import type { RunState } from "../RunState.ts"
import { appendUser, type Event } from "./turn.ts"

/** Appends what the model had said, and a message that marks it as cut for the next model call. */
export const appendCut = (state: RunState, { at, said }: Event<"run.cancelled">): RunState => {
  if (said === undefined) return state
  const sequence = History.size(state.history)
  const history = History.append(state.history, { role: "assistant", sequence, at, content: said, cut: true })
  return appendUser({ ...state, history }, [text(cutText)], at, "runtime")
}

const cutText = "The run was cancelled while you were answering. Your last answer is incomplete."
