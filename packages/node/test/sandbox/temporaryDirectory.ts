/**
 * A directory that is removed with its scope.
 */
import { mkdirSync, mkdtempSync, realpathSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"

/** A new directory, with a working directory in it, so that the outside can be looked at. */
export const temporaryDirectory: Effect.Effect<
  { readonly top: string; readonly workdir: string },
  never,
  Scope.Scope
> = Effect.acquireRelease(
  Effect.sync(() => {
    const top = realpathSync(mkdtempSync(join(tmpdir(), "fermata-sandbox-")))
    const workdir = join(top, "work")
    mkdirSync(workdir)
    return { top, workdir }
  }),
  ({ top }) => Effect.sync(() => rmSync(top, { recursive: true, force: true }))
)
