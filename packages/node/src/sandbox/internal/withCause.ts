/**
 * Carries an error of a sandbox through its spawner: `exec` fails with the cause of the spawner's error.
 */
import type { SandboxError } from "@fermata/sdk"
import * as PlatformError from "effect/PlatformError"

export const withCause = (cause: SandboxError.SandboxError): PlatformError.PlatformError =>
  PlatformError.systemError({
    _tag: "Unknown",
    module: "ChildProcess",
    method: "spawn",
    description: cause.message,
    cause
  })
