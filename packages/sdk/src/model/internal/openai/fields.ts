/** What both protocols of OpenAI say in the same words. */
import type * as Schema from "effect/Schema"
import type { Compatibility } from "../../ModelProfile.ts"
import type { ModelRequest, ModelSettings, ToolDefinition } from "../../ModelRequest.ts"
import { allowsStrict } from "./strictSchema.ts"
import type { SettingFields } from "../warnings.ts"

/** A field, if there is a value. */
export const given = (field: string, value: Schema.Json | undefined): Schema.JsonObject =>
  value === undefined ? {} : { [field]: value }

/** Whether a schema is marked as strict. */
export const isStrict = (schema: Schema.JsonObject, { strict }: Compatibility): boolean =>
  strict === true && allowsStrict(schema)

/** How one protocol writes a tool, and the choice of one. */
interface ToolForm {
  readonly tool: (definition: ToolDefinition, strict: boolean) => Schema.JsonObject
  readonly choice: (name: string) => Schema.JsonObject
}

/** The tools, which of them may be called, and how many at once; nothing where there are no tools. */
export const toolFields = (
  { tools }: ModelRequest,
  { parallelToolCalls, toolChoice }: ModelSettings,
  compatibility: Compatibility,
  form: ToolForm
): Schema.JsonObject =>
  tools.length === 0
    ? {}
    : {
        tools: tools.map((tool) => form.tool(tool, isStrict(tool.parameters, compatibility))),
        ...given("tool_choice", typeof toolChoice === "object" ? form.choice(toolChoice.tool) : toolChoice),
        ...given(
          "parallel_tool_calls",
          compatibility.parallelToolCalls === false ? undefined : parallelToolCalls
        )
      }

/** Where both protocols say what settings ask for. */
export const settingFields: SettingFields = {
  toolChoice: ["tool_choice"],
  parallelToolCalls: ["parallel_tool_calls"],
  temperature: ["temperature"],
  topP: ["top_p"],
  stop: ["stop"],
  seed: ["seed"]
}
