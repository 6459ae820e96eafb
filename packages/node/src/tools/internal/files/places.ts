/**
 * Where the file tools act: in the sandbox of the run, or in a directory of this machine behind a path guard.
 *
 * The definition of a tool fixes which of the two it is: a tool of a sandbox never acts on this machine instead, even if its sandbox is
 * missing.
 */
import { resolve } from "node:path"
import { type Sandbox, type SandboxError, ToolError } from "@fermata/sdk"
import * as Effect from "effect/Effect"
import type * as FileSystem from "effect/FileSystem"
import type * as PlatformError from "effect/PlatformError"
import { FileError, type FileProblem, PathDenied } from "../../../guard/internal/pathErrors.ts"
import * as PathGuard from "../../../guard/PathGuard.ts"

/** The operations that the tools need: those of a sandbox, or of a directory of this machine. */
export type Place = Pick<Sandbox.Shape, "files" | "approvedFiles" | "judgePath" | "target" | "workdir"> & {
  /** Runs a program in a sandbox. `undefined` for a directory of this machine. */
  readonly exec?: Sandbox.Shape["exec"]
}

/** The place of a tool that has the option `root`, or whose context has a sandbox. */
export type PlaceOf = (
  context: object
) => Effect.Effect<Place, SandboxError.SandboxLost | SandboxError.SandboxUnavailable>

/** The place in a directory of this machine. */
export const machinePlace = (rules: PathGuard.Rules, root: string): Effect.Effect<Place> =>
  Effect.map(
    // Loaded in programs whose tools act on this machine.
    Effect.promise(() => import("../../../sandbox/internal/guardedFiles.ts")),
    ({ guardedFiles }) => {
      const workdir = resolve(root)
      const guard = PathGuard.make(rules)
      return {
        target: "this machine",
        workdir,
        files: guardedFiles(guard, false),
        approvedFiles: guardedFiles(guard, true),
        judgePath: (path, access) =>
          Effect.map(guard.judge(path, access), (judgement): Sandbox.PathJudgement => {
            const given = resolve(workdir, path)
            return judgement.decision === "allow"
              ? { decision: "allow", path: judgement.place ?? given }
              : { decision: judgement.decision, path: given, reason: judgement.denial.message }
          })
      }
    }
  )

/** The sandbox in the context of a handler or of a callback. */
export const sandboxPlace: PlaceOf = (context) => {
  const { sandbox } = context as { readonly sandbox: Sandbox.Shape | ReturnType<PlaceOf> }
  return Effect.isEffect(sandbox) ? sandbox : Effect.succeed(sandbox)
}

/** The failure of a call that may not use a path, with the reason of the rules. */
export const refused = (path: string, judgement: Sandbox.PathJudgement): ToolError.ToolFailure =>
  new ToolError.ToolFailure({
    description: judgement.reason ?? new PathDenied({ path, reason: "outside", isApprovable: false }).message
  })

/** The files that a call may use after this judgement; fails if it may not. */
export const filesFor = (
  place: Place,
  path: string,
  access: "read" | "write",
  isApproved: boolean
): Effect.Effect<FileSystem.FileSystem, ToolError.ToolFailure> =>
  Effect.flatMap(place.judgePath(path, access), (judgement) => {
    if (judgement.decision === "allow") return Effect.succeed(place.files)
    return judgement.decision === "ask" && isApproved
      ? Effect.succeed(place.approvedFiles)
      : Effect.fail(refused(path, judgement))
  })

/** The error of a file as a failure for the model, without any path that the model did not write. */
export const failureOf = (path: string, error: PlatformError.PlatformError): ToolError.ToolFailure => {
  const { cause } = error.reason as { readonly cause?: unknown }
  const known = cause instanceof PathDenied || cause instanceof FileError
  return new ToolError.ToolFailure({ description: known ? cause.message : described(path, error).message })
}

const described = (path: string, { reason }: PlatformError.PlatformError): FileError =>
  new FileError({ path, reason: problems[reason._tag] ?? "failed" })

const problems: Readonly<Record<string, FileProblem>> = {
  NotFound: "notFound",
  AlreadyExists: "exists",
  PermissionDenied: "noPermission",
  WriteZero: "noSpace"
}

/** Whether a file is missing. */
export const isMissing = ({ reason }: PlatformError.PlatformError): boolean => reason._tag === "NotFound"
