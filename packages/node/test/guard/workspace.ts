/**
 * A workspace with an outside: links, special files and the files of the lists of paths, in a directory that is removed with its scope.
 */
import { execFileSync } from "node:child_process"
import * as Fs from "node:fs"
import { createServer } from "node:net"
import { tmpdir } from "node:os"
import { join } from "node:path"
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"

export const secret = "SECRET of the outside"

export interface Workspace {
  /** The directory that holds the workspace `ws` and its neighbors. */
  readonly top: string
  readonly root: string
  /** The content of every regular file outside of the workspace. */
  readonly outside: () => ReadonlyArray<string>
}

export const workspace: Effect.Effect<Workspace, never, Scope.Scope> = Effect.acquireRelease(
  Effect.sync(() => {
    const top = Fs.realpathSync(Fs.mkdtempSync(join(tmpdir(), "fermata-paths-")))
    const root = join(top, "ws")
    for (const name of ["ws/src", "ws/a/b", "ws/sub", "ws/.git/hooks", "ws/.fermata", "out/dir", "ws-evil"])
      Fs.mkdirSync(join(top, name), { recursive: true })
    Fs.writeFileSync(join(top, "out/secret.txt"), secret)
    Fs.writeFileSync(join(top, "ws-evil/x.txt"), secret)
    Fs.writeFileSync(join(root, "src/index.ts"), "export {}\n", { mode: 0o640 })
    Fs.writeFileSync(join(root, "package.json"), "{}\n")
    Fs.writeFileSync(join(root, "fermata.db"), "store")
    Fs.writeFileSync(join(root, ".fermata/policy.json"), "{}")
    Fs.writeFileSync(join(root, ".git/config"), "[core]\n")
    const links = {
      "link-out": join(top, "out"),
      "link-file": join(top, "out/secret.txt"),
      "link-abs": "/",
      "link-chain": "link-out",
      dangling: join(top, "out/newdir"),
      "link-new": join(top, "out/new.txt"),
      "sub/link-up": "../..",
      loop: "loop",
      "inner-link": "src",
      swap: join(top, "out"),
      "to-hooks": ".git/hooks",
      "to-store": "fermata.db",
      "to-env": ".env"
    }
    for (const [name, target] of Object.entries(links)) Fs.symlinkSync(target, join(root, name))
    Fs.linkSync(join(top, "out/secret.txt"), join(root, "hard"))
    const makeFifo = "mkfifo"
    execFileSync(makeFifo, [join(root, "fifo")])
    const server = createServer().listen(join(root, "bound"))
    // Under its own name, the socket would be removed with its server.
    Fs.renameSync(join(root, "bound"), join(root, "sock"))
    server.close()
    Fs.writeFileSync(join(root, "big"), "")
    Fs.truncateSync(join(root, "big"), 2 ** 40)
    return {
      top,
      root,
      outside: () => [
        ...Fs.readdirSync(top),
        ...["out", "ws-evil"].flatMap((folder) =>
          Fs.readdirSync(join(top, folder), { recursive: true, encoding: "utf8" }).map((name) => {
            const path = join(top, folder, name)
            return Fs.statSync(path).isFile() ? `${path}: ${Fs.readFileSync(path, "utf8")}` : path
          })
        )
      ]
    }
  }),
  ({ top }) => Effect.sync(() => Fs.rmSync(top, { recursive: true, force: true }))
)
