/** Builders of histories and requests. */
import { ToolCallId, RunId, SessionId } from "../../src/domain/Id.ts"
import type { AssistantPart, Message, ToolOutcome, UserPart } from "../../src/domain/Message.ts"
import type { AnsweredPart } from "../../src/domain/RunEvent.ts"
import type { ModelRequest } from "../../src/model/ModelRequest.ts"

/** A message without its place in the history. */
type Unplaced = Message extends infer M ? (M extends Message ? Omit<M, "sequence" | "at"> : never) : never

const partsOf = (content: string | ReadonlyArray<UserPart>): ReadonlyArray<UserPart> =>
  typeof content === "string" ? [{ _tag: "text", text: content }] : content

export const user = (content: string | ReadonlyArray<UserPart>): Unplaced => ({
  role: "user",
  content: partsOf(content)
})

/** An answer whose calls get the ids `run_1.t<turn>.<ordinal>`, as in a run. */
export const answer = (turn: number, content: ReadonlyArray<AnsweredPart>): Unplaced => {
  let ordinal = 0
  return {
    role: "assistant",
    content: content.map((part): AssistantPart =>
      part._tag === "toolCall" ? { ...part, callId: callId(turn, ++ordinal) } : part
    )
  }
}

const callId = (turn: number, ordinal: number) => ToolCallId.make(`run_1.t${turn}.${ordinal}`)

export const result = (
  turn: number,
  ordinal: number,
  content: string | ReadonlyArray<UserPart>,
  outcome: ToolOutcome = "completed"
): Unplaced => ({
  role: "tool",
  callId: callId(turn, ordinal),
  providerCallId: "",
  name: "read",
  outcome,
  content: partsOf(content)
})

export const call = (providerCallId: string, name = "read", text = "{}"): AnsweredPart => ({
  _tag: "toolCall",
  providerCallId,
  name,
  arguments: text
})

export const requestOf = (
  messages: ReadonlyArray<Unplaced>,
  more: Partial<ModelRequest> = {}
): ModelRequest => ({
  runId: RunId.make("run_1"),
  sessionId: SessionId.make("session_1"),
  agentPath: ["tester"],
  turn: 1,
  instructions: "",
  messages: messages.map((message, sequence) => ({ ...message, sequence, at: 0 })) as ReadonlyArray<Message>,
  tools: [],
  ...more
})

/** A tool definition. */
export const tool = {
  name: "read",
  description: "Reads a file.",
  parameters: { type: "object", properties: { path: { type: "string" } }, required: ["path"] }
}
