/**
 * Writes `docs/event-reference.md`, the reference of runtime events, from their schemas. `--check` writes nothing and fails if the page is out
 * of date.
 */
import "./internal/help.ts"
import * as Fs from "node:fs"
import * as Path from "node:path"
import { RuntimeCommand, RuntimeEvent, RuntimeEventEnvelope } from "@fermata/sdk/control"
import * as Schema from "effect/Schema"
import { root } from "./internal/run.ts"

interface JsonSchema {
  readonly type?: string
  readonly enum?: ReadonlyArray<unknown>
  readonly $ref?: string
  readonly items?: JsonSchema
  readonly anyOf?: ReadonlyArray<JsonSchema>
  readonly description?: string
  readonly properties?: Readonly<Record<string, JsonSchema>>
  readonly required?: ReadonlyArray<string>
}

/** A member of a union of tagged structs. */
type Member = Schema.Top & { readonly fields: { readonly _tag: { readonly literal: string } } }

const bodyOf = (member: Member): JsonSchema => {
  const { definitions, schema } = Schema.toJsonSchemaDocument(member) as unknown as {
    readonly schema: JsonSchema
    readonly definitions: Readonly<Record<string, JsonSchema>>
  }
  const name = schema.$ref?.split("/").at(-1)
  return name === undefined ? schema : (definitions[name] ?? schema)
}

const typeOf = (schema: JsonSchema): string => {
  if (schema.enum !== undefined)
    return schema.enum.map((value) => `\`${JSON.stringify(value)}\``).join(" or ")
  if (schema.type === "array")
    return `list of ${schema.items === undefined ? "values" : typeOf(schema.items)}`
  if (schema.type !== undefined) return schema.type
  if (schema.anyOf !== undefined && schema.anyOf.length <= 3)
    return [...new Set(schema.anyOf.map(typeOf))].join(" or ")
  return schema.$ref?.split("/").at(-1) ?? "object"
}

/** The fields that every event of a task has. */
const scope = new Set(["sessionId", "taskId", "turn", "agentPath", "agentRunId"])

const rowOf = (member: Member): string => {
  const { description = "", properties = {}, required = [] } = bodyOf(member)
  const isScoped = "turn" in properties
  const fields = Object.entries(properties)
    .filter(([name]) => name !== "family" && name !== "_tag" && name !== "v" && name !== "commandId")
    .filter(([name]) => !isScoped || !scope.has(name))
    .map(([name, schema]) => `\`${name}\`${required.includes(name) ? "" : "?"}: ${typeOf(schema)}`)
  const place = isScoped ? ["the place in its task"] : []
  const text = `${[...place, ...fields].join("; ") || "none"}`.replaceAll("|", "\\|")
  return `| \`${member.fields._tag.literal}\` | ${description.replaceAll("|", "\\|")} | ${text} |`
}

const tableOf = (members: ReadonlyArray<Member>): string =>
  ["| name | meaning | fields |", "| --- | --- | --- |", ...members.map(rowOf)].join("\n")

const familyOf = ([name, schema]: readonly [string, unknown]): string => {
  const members = (schema as { readonly members?: ReadonlyArray<Member> }).members ?? [schema as Member]
  return `## ${name}\n\n${tableOf(members)}\n`
}

const page = `# Event reference

This page is generated from the schemas by \`npm run docs:events\`. [Events of a control plane](architecture/events.md) says what they promise.

An envelope has the version \`v\` (${RuntimeEventEnvelope.version}), \`seq\`, \`tsUnixMs\` and the \`event\`; and, where they apply, \`journal\`, \`merged\` and
\`replayed\`. An event has its \`family\` and its name, \`_tag\`. The place in its task is \`sessionId\`, \`taskId\`, \`turn\`, \`agentPath\` and \`agentRunId\`.
A question mark marks a field that may be absent.

${Object.entries(RuntimeEvent.families).map(familyOf).join("\n")}
## Commands

Each command may have a \`commandId\` and the version \`v\` (${RuntimeCommand.version}).

${tableOf(RuntimeCommand.RuntimeCommand.members as unknown as ReadonlyArray<Member>)}
`

const file = Path.join(root, "docs/event-reference.md")
/** Without the padding of tables, which the formatter adds. */
const bare = (text: string): string => text.replace(/ +/g, " ").replace(/-{3,}/g, "---")
const isCurrent = Fs.existsSync(file) && bare(Fs.readFileSync(file, "utf8")) === bare(page)
if (process.argv.includes("--check")) {
  if (!isCurrent) console.error("docs/event-reference.md is out of date: run `npm run docs:events`.")
  process.exitCode = isCurrent ? 0 : 1
} else if (!isCurrent) {
  Fs.writeFileSync(file, page)
  console.log("wrote docs/event-reference.md")
}
