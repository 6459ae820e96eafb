/**
 * The settings `temperature` and `topP`, as far as a model accepts them. A provider refuses the whole request otherwise.
 *
 * Claude accepts one of them from version 4.1 on, and none from 4.7 on. Reasoning models of OpenAI accept none while they reason. Names of
 * models are the same behind proxies and gateways, so the protocol does not matter. `compatibility.sampling` overrides the name.
 */
import { defined } from "../../domain/internal/defined.ts"
import type { Compatibility, ModelProfile } from "../ModelProfile.ts"
import type { ModelSettings } from "../ModelRequest.ts"

/** The fields of a body, the same in every protocol. */
export interface SamplingFields {
  readonly temperature?: number
  readonly top_p?: number
}

/** Returns the fields to send. If the model accepts only one setting, it is the temperature. */
export const samplingFields = (
  { compatibility, model }: Pick<ModelProfile, "compatibility" | "model">,
  settings: ModelSettings
): SamplingFields => {
  const accepted = compatibility?.sampling ?? acceptedBy(model, settings.reasoningEffort)
  if (accepted === "none") return {}
  const { temperature, topP } = settings
  const isLeftOut = accepted === "either" && temperature !== undefined
  return defined({ temperature, top_p: isLeftOut ? undefined : topP })
}

const acceptedBy = (
  model: string,
  effort: ModelSettings["reasoningEffort"]
): NonNullable<Compatibility["sampling"]> => {
  const claude = claudeVersionOf(model)
  if (claude > 0) return claude >= 4.7 ? "none" : claude >= 4.1 ? "either" : "both"
  const [, openAi, minor] = /(?:^|[/.])(o\d|gpt-5(?:\.(\d+))?)(?![\w.])/.exec(model) ?? []
  if (openAi === undefined || /-chat/.test(model)) return "both"
  if (minor === undefined) return "none"
  // From 5.1 on, the effort can be `none`, which is the default up to 5.4, except of the models for code.
  const reasons = effort === undefined ? Number(minor) > 4 || /codex|pro/.test(model) : effort !== "none"
  return reasons ? "none" : "both"
}

/** Returns the version in the name of a Claude model, such as 4.6 for `claude-opus-4-6`; 0 if it has none. A date is not a version. */
export const claudeVersionOf = (model: string): number => {
  const [, major, minor] = /claude-(?:[a-z]+-)*(\d{1,2})(?:[-.](\d{1,2}))?(?!\d)/.exec(model) ?? []
  return major === undefined ? 0 : Number(major) + Number(minor ?? 0) / 10
}
