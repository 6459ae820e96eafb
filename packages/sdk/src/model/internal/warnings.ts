/** Warnings about settings that a request omits, each logged once. */
import * as Effect from "effect/Effect"
import type * as Schema from "effect/Schema"
import { line } from "../../domain/Display.ts"
import type { ModelRequest, ModelSettings } from "../ModelRequest.ts"
import { fieldsOf } from "./fields.ts"

/** Logs each sentence that was not logged before. Each client has one. */
export type Warnings = (sentences: ReadonlyArray<string>) => Effect.Effect<void>

/** Makes the warnings of a client. Each names its profile. */
export const makeWarnings = (profile: string): Warnings => {
  const logged = new Set<string>()
  return (sentences) =>
    Effect.suspend(() => {
      const fresh = [...new Set(sentences)].filter((sentence) => !logged.has(sentence))
      for (const sentence of fresh) logged.add(sentence)
      return Effect.forEach(fresh, (sentence) => Effect.logWarning(line(`Model ${profile}: ${sentence}`)), {
        discard: true
      })
    })
}

/** The sentence for a setting that is not passed on, with the reason. */
export const omittedSetting = (setting: string, why: string): string =>
  `the setting ${setting} is left out: ${why}.`

/** The paths in a body at which a setting may appear. A setting that appears at none of them was omitted. */
export type SettingFields = Partial<Readonly<Record<keyof ModelSettings, ReadonlyArray<string>>>>

/** Sentences for the requested settings that the body omits. */
export const omittedSettings = (
  { settings, tools }: Pick<ModelRequest, "settings" | "tools">,
  body: Schema.JsonObject,
  fields: SettingFields
): ReadonlyArray<string> =>
  Object.entries(settings ?? {}).flatMap(([setting, value]) => {
    const places = fields[setting as keyof ModelSettings]
    const isDefault = value === undefined || hasNoEffect(setting, value, tools)
    return places === undefined || isDefault || places.some((path) => isSet(body, path))
      ? []
      : [omittedSetting(setting, "this protocol, this profile or the rest of the request does not allow it")]
  })

/** The request means the same without this setting. */
const hasNoEffect = (setting: string, value: unknown, tools: ModelRequest["tools"]): boolean =>
  setting === "reasoningEffort"
    ? value === "none"
    : setting === "parallelToolCalls"
      ? value === true || tools.length === 0
      : setting === "toolChoice" && tools.length === 0

const isSet = (body: Schema.JsonObject, path: string): boolean => {
  let at: unknown = body
  for (const name of path.split(".")) at = fieldsOf(at)?.[name]
  return at !== undefined
}
