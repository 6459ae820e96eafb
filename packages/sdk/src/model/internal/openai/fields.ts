/** The fields that are the same in both protocols of OpenAI. */
import type * as Schema from "effect/Schema"
import { defined } from "../../../domain/internal/defined.ts"
import type { Compatibility } from "../../ModelProfile.ts"
import type { ModelRequest, ModelSettings, ToolDefinition } from "../../ModelRequest.ts"
import { type Fields, fieldsOf } from "../fields.ts"
import type { SettingFields } from "../warnings.ts"

/** Returns `true` if a schema is to be marked as strict: the profile allows it, and the schema is suitable. */
export const isStrict = (schema: Schema.JsonObject, { strict }: Compatibility): boolean =>
  strict === true && allowsStrict(schema)

/**
 * Returns `true` if the strict mode accepts the schema: every object requires all of its properties and allows no others. The provider
 * refuses the whole request otherwise.
 */
const allowsStrict = (schema: Schema.JsonObject): boolean => {
  if (schema.type !== "object") return false
  const waiting: Array<unknown> = [schema]
  while (waiting.length > 0) {
    const node = fieldsOf(waiting.pop())
    if (node === undefined || unsupported.some((keyword) => keyword in node)) return false
    if (!restricting.some((keyword) => keyword in node)) return false
    const types: ReadonlyArray<unknown> = Array.isArray(node.type) ? node.type : [node.type]
    if (types.includes("object")) {
      const { additionalProperties, properties, required } = node
      // Both fields must exist, even if they are empty.
      if (fieldsOf(properties) === undefined || !Array.isArray(required) || additionalProperties !== false) {
        return false
      }
      if (Object.keys(properties as Fields).some((name) => !required.includes(name))) return false
    }
    if (types.includes("array")) waiting.push(node.items)
    for (const named of [node.properties, node.$defs, node.definitions]) {
      waiting.push(...Object.values(fieldsOf(named) ?? {}))
    }
    if (Array.isArray(node.anyOf)) waiting.push(...node.anyOf)
  }
  return true
}

// https://developers.openai.com/api/docs/guides/structured-outputs#supported-schemas
const unsupported = [
  "allOf",
  "oneOf",
  "not",
  "dependentRequired",
  "dependentSchemas",
  "if",
  "patternProperties",
  "prefixItems"
]

/** A schema without any of these allows every value. */
const restricting = ["type", "anyOf", "$ref", "enum", "const"]

/** How one protocol encodes a tool and the choice of a tool. */
interface ToolForm {
  readonly tool: (definition: ToolDefinition, strict: boolean) => Schema.JsonObject
  readonly choice: (name: string) => Schema.JsonObject
}

/** The fields about tools: their declarations, the tool choice, and parallel calls. Empty if there are no tools. */
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
        ...defined({
          tool_choice: typeof toolChoice === "object" ? form.choice(toolChoice.tool) : toolChoice,
          parallel_tool_calls: compatibility.parallelToolCalls === false ? undefined : parallelToolCalls
        })
      }

/** The fields of settings that are the same in both protocols. */
export const settingFields: SettingFields = {
  toolChoice: ["tool_choice"],
  parallelToolCalls: ["parallel_tool_calls"],
  temperature: ["temperature"],
  topP: ["top_p"],
  stop: ["stop"],
  seed: ["seed"]
}
