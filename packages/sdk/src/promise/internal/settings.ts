/**
 * Divides the options of a Fermata into the services that its runs need and the options of its runtimes.
 */
import * as Layer from "effect/Layer"
import { ContextPolicy, make as makeContextPolicy } from "../../context/ContextPolicy.ts"
import { ModelClient } from "../../model/ModelClient.ts"
import { Tokenizer } from "../../model/Tokenizer.ts"
import { Scrubber } from "../../tool/Scrubber.ts"
import { Secrets } from "../../tool/Secrets.ts"
import type { SharedOptions } from "./bindAgents.ts"
import type { FermataOptions } from "./options.ts"

export const settingsOf = (options: Omit<FermataOptions, "agents" | "by" | "drainTimeout" | "store">) => {
  const { contextPolicy, model, modelProfile, scrubber, secrets, tokenizer, ...rest } = options
  const policy = typeof contextPolicy === "function" ? makeContextPolicy(contextPolicy) : contextPolicy
  const services: Layer.Layer<ModelClient> = Layer.mergeAll(
    Layer.succeed(ModelClient, model),
    ...(policy === undefined ? [] : [Layer.succeed(ContextPolicy, policy)]),
    ...(scrubber === undefined ? [] : [Layer.succeed(Scrubber, scrubber)]),
    ...(secrets === undefined ? [] : [Layer.succeed(Secrets, secrets)]),
    ...(tokenizer === undefined ? [] : [Layer.succeed(Tokenizer, tokenizer)])
  )
  const runtimeOptions: SharedOptions = {
    ...rest,
    ...(modelProfile === undefined ? {} : { model: modelProfile })
  }
  return { services, runtimeOptions }
}
