/**
 * Creates a runtime from checked options.
 */
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Semaphore from "effect/Semaphore"
import { ContextPolicy } from "../../context/ContextPolicy.ts"
import { kindOf, withoutUndefined } from "../../domain/internal/untyped.ts"
import { Memory } from "../../memory/Memory.ts"
import { clientKind } from "../../model/internal/clientKind.ts"
import { ModelClient } from "../../model/ModelClient.ts"
import { Tokenizer } from "../../model/Tokenizer.ts"
import { SandboxProvider } from "../../sandbox/SandboxProvider.ts"
import { contained, Scrubber } from "../../tool/Scrubber.ts"
import { Secrets } from "../../tool/Secrets.ts"
import { WebAccess } from "../../tool/WebAccess.ts"
import * as Cancellation from "../Cancellation.ts"
import { everything } from "../CapabilityProfile.ts"
import { RunIds } from "../RunIds.ts"
import type { Runtime, RuntimeOptions } from "../RuntimeDefinition.ts"
import { RuntimeOptionsInvalid } from "../RuntimeError.ts"
import { configure, type ConfigureError } from "./configuration.ts"
import { makeLifecycle } from "./lifecycle.ts"
import { LiveRuns } from "./LiveRuns.ts"
import { ProgramAgents, requireRules, ruleToolsOf } from "./ruleTools.ts"
import { OpenSandboxes, providerOf } from "./Sandboxes.ts"
import { warnOfUnasked } from "./unasked.ts"
import { servicesOf } from "./userCode.ts"

/** The constant defaults. The others follow from the profile and the agent, or are random. */
const defaults = {
  profile: everything.name,
  interactive: true,
  leaseTtl: "15 seconds",
  cancelGrace: "2 seconds",
  closeTimeout: "5 seconds"
} as const

export const assemble = <R, Output>(
  given: RuntimeOptions<R, Output>
): Effect.Effect<Runtime<Output>, ConfigureError | RuntimeOptionsInvalid, R | ModelClient> =>
  Effect.gen(function* () {
    const options = { ...defaults, ...given }
    const client = yield* ModelClient
    if (!clientKind.is(client)) {
      const problem = `the service ModelClient takes ${clientKind.takes}, and ${kindOf(client)} was given`
      return yield* new RuntimeOptionsInvalid({ problems: [{ knob: "model", problem }] })
    }
    const { agent, closeTimeout, extensions = [], mode, model, profile } = options
    const profiles = new Map(
      [
        everything,
        ...Object.keys(options.sandboxes ?? {}).map((name) => ({ name })),
        ...(options.profiles ?? [])
      ].map((profile) => [profile.name, profile])
    )
    const cancellation = Cancellation.make(options.cancellation ?? (yield* Cancellation.CancellationToken))
    const closing = Cancellation.make()
    const runs = new LiveRuns()
    const fallback = options.sandbox ?? (yield* SandboxProvider)
    const sandboxes = new OpenSandboxes({
      provider: providerOf({ ...options, sandbox: fallback }, profile),
      workdir: options.workingDirectory,
      runs
    })
    // One listener for all runs, since there may be many.
    cancellation.onCancel((reason) => {
      for (const run of runs) run.cancel(reason)
    })
    let made: Runtime<Output> | undefined
    const runtime = () => {
      if (made === undefined)
        throw new Error("The runtime does not exist yet: call runtime() in a handler or in onStart.")
      return made
    }
    const configured = yield* configure(
      { agent, peers: options.peers, profiles, extensions, cancellation, runtime },
      { profile, ...withoutUndefined({ mode, model }) },
      { model: client, services: servicesOf(yield* Effect.context<R>()) }
    )
    const ruleTools = ruleToolsOf([agent, ...(yield* ProgramAgents)], extensions.length > 0)
    yield* requireRules(agent, profiles.values(), ruleTools)
    yield* warnOfUnasked(configured.bound)
    const memory = Option.getOrUndefined(yield* Effect.serviceOption(Memory))
    made = {
      kind: sandboxes.provider?.isRemote === true ? "remote" : "local",
      options: fallback === undefined ? options : { ...options, sandbox: fallback },
      agent,
      profiles,
      contextPolicy: yield* ContextPolicy,
      ...(memory === undefined ? {} : { memory }),
      tokenizer: yield* Tokenizer,
      scrubber: contained(yield* Scrubber),
      secrets: yield* Secrets,
      web: yield* WebAccess,
      ids: yield* RunIds,
      owner: options.owner ?? `worker-${globalThis.crypto.randomUUID().slice(0, 8)}`,
      runs,
      cancellation,
      ...makeLifecycle({
        agent: agent.name,
        extensions,
        cancellation,
        closing,
        runs,
        sandboxes,
        closeTimeout,
        runtime
      }),
      ...configured,
      "~sandboxes": sandboxes,
      "~ruleTools": ruleTools,
      "~closing": closing,
      "~changing": Semaphore.makeUnsafe(1)
    }
    return made
  })
