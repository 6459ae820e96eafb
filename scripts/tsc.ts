/**
 * The TypeScript compiler with Effect's diagnostics: `@effect/tsgo` ships the same compiler, extended, so that nothing in `node_modules`
 * is patched. Takes the arguments of `tsc`. Declarations whose source is gone are removed first, because `tsc -b` never does: a package
 * must not ship a module that no longer exists.
 */
import { execFileSync, spawnSync } from "node:child_process"
import * as Fs from "node:fs"
import * as Path from "node:path"
import { environment, root } from "./internal/run.ts"

for (const name of Fs.readdirSync(Path.join(root, "packages"))) {
  const dist = Path.join(root, "packages", name, "dist")
  if (!Fs.existsSync(dist)) continue
  for (const file of Fs.readdirSync(dist, { recursive: true }).map(String)) {
    const module = /^(.*?)\.d\.ts(\.map)?$/.exec(file)?.[1]
    if (module !== undefined && !Fs.existsSync(Path.join(root, "packages", name, "src", `${module}.ts`))) {
      Fs.rmSync(Path.join(dist, file))
    }
  }
}

const compiler = execFileSync("effect-tsgo", ["get-exe-path"], {
  cwd: root,
  encoding: "utf8",
  env: environment
}).trim()
const { status } = spawnSync(compiler, process.argv.slice(2), {
  cwd: root,
  env: environment,
  stdio: "inherit"
})
process.exitCode = status ?? 1
