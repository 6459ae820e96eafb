/**
 * Makes a sandbox from the operations of its backend; the others are derived, or fail with `CapabilityMissing`.
 *
 * @since 0.2.0
 */
import * as Effect from "effect/Effect"
import { execBy } from "./internal/exec.ts"
import type { Capability, Shape } from "./Sandbox.ts"
import { CapabilityMissing } from "./SandboxError.ts"

/** The operations that a backend provides. The sandbox has the capability of each optional operation that is given. */
export interface SandboxParts extends Pick<
  Shape,
  "ref" | "target" | "scope" | "spawner" | "files" | "approvedFiles" | "judgePath"
> {
  /** The capabilities that have no operation. */
  readonly confinement?: ReadonlyArray<"isolated" | "noNetwork">
  /** Runs a command. Default: by the spawner. */
  readonly exec?: Shape["exec"]
  readonly findCommand?: Shape["findCommand"]
  readonly snapshot?: Shape["snapshot"]
  readonly portUrl?: Shape["portUrl"]
  readonly screen?: Shape["screen"]
}

/** Makes a sandbox from the parts of a backend. */
export const makeSandbox = (parts: SandboxParts): Shape => {
  const { backend } = parts.ref
  const missing = (capability: Capability) => Effect.fail(CapabilityMissing.make({ backend, capability }))
  const capabilities = new Set<Capability>(parts.confinement)
  if (parts.findCommand !== undefined) capabilities.add("sessions")
  if (parts.snapshot !== undefined) capabilities.add("snapshot")
  if (parts.portUrl !== undefined) capabilities.add("ports")
  if (parts.screen !== undefined) capabilities.add("screen")
  return {
    ref: parts.ref,
    target: parts.target,
    workdir: parts.ref.workdir,
    scope: parts.scope,
    spawner: parts.spawner,
    files: parts.files,
    approvedFiles: parts.approvedFiles,
    judgePath: parts.judgePath,
    capabilities,
    exec: parts.exec ?? execBy(parts.spawner, backend),
    findCommand: parts.findCommand ?? (() => missing("sessions")),
    snapshot: parts.snapshot ?? missing("snapshot"),
    portUrl: parts.portUrl ?? (() => missing("ports")),
    screen: parts.screen ?? missing("screen")
  }
}
