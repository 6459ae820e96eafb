/** Saying what of a request a model does not get, once. */
import * as Effect from "effect/Effect"
import type * as Schema from "effect/Schema"
import { line } from "../../domain/Display.ts"
import type { ModelRequest, ModelSettings } from "../ModelRequest.ts"
import { fieldsOf } from "./fields.ts"

/** Logs each of these sentences, unless it was logged before. One lives for one client. */
export type Warnings = (sentences: ReadonlyArray<string>) => Effect.Effect<void>

/** Nothing was said yet. */
export const makeWarnings = (profile: string): Warnings => {
  const said = new Set<string>()
  return (sentences) =>
    Effect.suspend(() => {
      const fresh = [...new Set(sentences)].filter((sentence) => !said.has(sentence))
      for (const sentence of fresh) said.add(sentence)
      return Effect.forEach(fresh, (sentence) => Effect.logWarning(line(`Model ${profile}: ${sentence}`)), {
        discard: true
      })
    })
}

/** A setting that is not passed on, and why. */
export const omittedSetting = (setting: string, why: string): string =>
  `the setting ${setting} is left out: ${why}.`

/** Where a body says what a setting asks for, by path; a setting that has several places is said in one of them. */
export type SettingFields = Partial<Readonly<Record<keyof ModelSettings, ReadonlyArray<string>>>>

/** The settings that a body does not say, although they were asked for. */
export const omittedSettings = (
  { settings, tools }: Pick<ModelRequest, "settings" | "tools">,
  body: Schema.JsonObject,
  fields: SettingFields
): ReadonlyArray<string> =>
  Object.entries(settings ?? {}).flatMap(([setting, value]) => {
    const places = fields[setting as keyof ModelSettings]
    const isDefault = value === undefined || isVoid(setting, value, tools)
    return places === undefined || isDefault || places.some((path) => isSaid(body, path))
      ? []
      : [
          omittedSetting(
            setting,
            "it does not go with this protocol, this profile, or the rest of the request"
          )
        ]
  })

/** What is asked for, and is so anyway. */
const isVoid = (setting: string, value: unknown, tools: ModelRequest["tools"]): boolean =>
  setting === "reasoningEffort"
    ? value === "none"
    : setting === "parallelToolCalls"
      ? value === true || tools.length === 0
      : setting === "toolChoice" && tools.length === 0

const isSaid = (body: Schema.JsonObject, path: string): boolean => {
  let at: unknown = body
  for (const name of path.split(".")) at = fieldsOf(at)?.[name]
  return at !== undefined
}
