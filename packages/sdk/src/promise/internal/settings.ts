/**
 * Divides the options of a Fermata into the services that its runs need and the options of its runtimes.
 */
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { compacting, ContextPolicy, make as makeContextPolicy } from "../../context/ContextPolicy.ts"
import type { DecisionInput } from "../../domain/Decision.ts"
import { isPlain, readOnce } from "../../domain/internal/untyped.ts"
import type { Principal } from "../../domain/Principal.ts"
import { ModelClient } from "../../model/ModelClient.ts"
import { Tokenizer } from "../../model/Tokenizer.ts"
import { Scrubber } from "../../tool/Scrubber.ts"
import { Secrets } from "../../tool/Secrets.ts"
import { WebAccess } from "../../tool/WebAccess.ts"
import type { SharedOptions } from "./bindAgents.ts"
import type { ApprovalCallback, FermataOptions } from "./options.ts"

/** A callback whose decisions have an author. */
const authored =
  (callback: ApprovalCallback, by: string | Principal): NonNullable<SharedOptions["approvalCallback"]> =>
  (request, about) => {
    const answer = callback(request, about)
    if (Effect.isEffect(answer)) return Effect.map(answer as Effect.Effect<unknown>, withAuthor(by))
    return isThenable(answer) ? Promise.resolve(answer).then(withAuthor(by)) : withAuthor(by)(answer)
  }

const withAuthor =
  (by: string | Principal) =>
  (answer: unknown): DecisionInput | undefined => {
    const decision = readOnce(answer, 1)
    // The run refuses an answer that is no decision.
    const isComplete =
      typeof decision !== "object" || decision === null || "by" in decision || !isPlain(decision)
    return (isComplete ? decision : Object.assign(decision, { by })) as DecisionInput
  }

const isThenable = (value: unknown): value is PromiseLike<unknown> =>
  typeof value === "object" && value !== null && "then" in value

export const settingsOf = (
  options: Omit<FermataOptions, "agents" | "by" | "drainTimeout" | "memory" | "store">,
  by: string | Principal
) => {
  const { approvalCallback, contextPolicy, model, modelProfile, scrubber, secrets, tokenizer, web, ...rest } =
    options
  const policy = typeof contextPolicy === "function" ? makeContextPolicy(contextPolicy) : contextPolicy
  const services: Layer.Layer<ModelClient> = Layer.mergeAll(
    Layer.succeed(ModelClient, model),
    Layer.succeed(ContextPolicy, policy ?? compacting()),
    ...(scrubber === undefined ? [] : [Layer.succeed(Scrubber, scrubber)]),
    ...(secrets === undefined ? [] : [Layer.succeed(Secrets, secrets)]),
    ...(web === undefined ? [] : [Layer.succeed(WebAccess, web)]),
    ...(tokenizer === undefined ? [] : [Layer.succeed(Tokenizer, tokenizer)])
  )
  const runtimeOptions: SharedOptions = {
    ...rest,
    ...(approvalCallback === undefined
      ? {}
      : {
          // The runtime refuses a value that is no function.
          approvalCallback:
            typeof approvalCallback === "function" ? authored(approvalCallback, by) : approvalCallback
        }),
    ...(modelProfile === undefined ? {} : { model: modelProfile })
  }
  return { services, runtimeOptions }
}
