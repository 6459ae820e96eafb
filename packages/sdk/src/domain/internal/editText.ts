/**
 * What the result of a call says about the decision on the call, besides the result itself.
 */
import { name, text as shown } from "../Display.ts"
import { text, type UserPart } from "../Message.ts"
import type { ToolCall } from "../RunState.ts"
import { sameJson } from "./json.ts"

/** A decision's note, for the model. */
export const noteText = (note: string): string => `Note: ${shown(note)}`

/**
 * The content of a call's result. If an approval edited the arguments, the first part says so: the history shows the edited arguments as the
 * model's own.
 */
export const informed = (
  { arguments: args = {}, edited, proposed, value = args }: ToolCall,
  content: ReadonlyArray<UserPart>
): ReadonlyArray<UserPart> => {
  if (edited === undefined || sameJson(proposed, value)) return content
  const { by, note } = edited
  const said = [
    `${name(by)} edited the arguments of this call.`,
    `Proposed: ${shown(JSON.stringify(proposed))}`,
    `Approved: ${shown(JSON.stringify(value))}`,
    ...(note === undefined || note === "" ? [] : [noteText(note)])
  ]
  return [text(`${said.join("\n")}\n`), ...content]
}
