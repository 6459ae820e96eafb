/**
 * The parts of a sandbox on another machine that a path guard provides.
 */
import { posix } from "node:path"
import type { Sandbox } from "@fermata/sdk"
import * as Effect from "effect/Effect"
import type { PathGuard } from "../../guard/internal/guarded.ts"
import { spawnError } from "./commands.ts"
import { guardedFiles } from "./guardedFiles.ts"
import type { Surroundings } from "./shellText.ts"

/** The files of a sandbox, its decisions about paths, and the directories in which its commands start. */
export const guardedParts = (
  guard: PathGuard,
  workdir: string
): {
  readonly parts: Pick<Sandbox.Shape, "files" | "approvedFiles" | "judgePath">
  readonly directoryOf: Surroundings["directoryOf"]
} => ({
  parts: {
    files: guardedFiles(guard, false),
    approvedFiles: guardedFiles(guard, true),
    judgePath: (path, access) =>
      Effect.map(guard.judge(path, access), (judgement): Sandbox.PathJudgement => {
        const given = posix.resolve(workdir, path)
        return judgement.decision === "allow"
          ? { decision: "allow", path: judgement.place ?? given }
          : { decision: judgement.decision, path: given, reason: judgement.denial.message }
      })
  },
  directoryOf: (cwd) =>
    cwd === undefined
      ? Effect.succeed(workdir)
      : Effect.gen(function* () {
          const judgement = yield* guard.judge(cwd, "read")
          if (judgement.decision === "deny")
            return yield* Effect.fail(
              spawnError("PermissionDenied", "The directory of a command has to be in the working directory")
            )
          const info = yield* Effect.option(guard.stat(cwd, { approved: true }))
          if (info._tag === "None" || info.value.type !== "directory")
            return yield* Effect.fail(spawnError("NotFound", "The directory of the command does not exist"))
          return judgement.decision === "allow" && judgement.place !== undefined
            ? judgement.place
            : posix.resolve(workdir, cwd)
        })
})
