/** What both protocols of OpenAI say in the same words. */
import type * as Schema from "effect/Schema"
import { defined } from "../../../domain/internal/defined.ts"
import type { Compatibility } from "../../ModelProfile.ts"
import type { ModelRequest, ModelSettings, ToolDefinition } from "../../ModelRequest.ts"
import { type Fields, fieldsOf } from "../fields.ts"
import type { SettingFields } from "../warnings.ts"

/** Whether a schema is marked as strict. */
export const isStrict = (schema: Schema.JsonObject, { strict }: Compatibility): boolean =>
  strict === true && allowsStrict(schema)

/**
 * Whether a provider's strict mode can be asked for: it takes only schemas in which every object names all of its properties as
 * required and allows no other, and refuses the whole request otherwise.
 */
const allowsStrict = (schema: Schema.JsonObject): boolean => {
  if (schema.type !== "object") return false
  const waiting: Array<unknown> = [schema]
  while (waiting.length > 0) {
    const node = fieldsOf(waiting.pop())
    if (node === undefined || unsupported.some((keyword) => keyword in node)) return false
    if (!says.some((keyword) => keyword in node)) return false
    const types: ReadonlyArray<unknown> = Array.isArray(node.type) ? node.type : [node.type]
    if (types.includes("object")) {
      const { additionalProperties, properties, required } = node
      // Both have to be there, also when there is nothing in them.
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

/** Without one of these a schema allows anything. */
const says = ["type", "anyOf", "$ref", "enum", "const"]

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
        ...defined({
          tool_choice: typeof toolChoice === "object" ? form.choice(toolChoice.tool) : toolChoice,
          parallel_tool_calls: compatibility.parallelToolCalls === false ? undefined : parallelToolCalls
        })
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
