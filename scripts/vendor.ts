/**
 * Writes `benchmarks/vendor/sqlite-client.{js,d.ts}`: the SQLite driver of `@effect/sql-sqlite-node`, with the module paths
 * of the installed `effect`. The released driver still imports `effect/unstable/sql/…`, which Effect 4.1 calls `effect/sql/…`;
 * it is one module that imports nothing but Effect and `node:sqlite`, so a copy with those paths replaced is the whole bundle.
 * Only the benchmarks use it, for Effect's workflow engine. Runs on `npm install`; does nothing when the copy is current. Remove it when a driver for Effect 4.1 is released.
 */
import * as Fs from "node:fs"
import { createRequire } from "node:module"
import * as Path from "node:path"

const root = Path.join(import.meta.dirname, "..")
const target = Path.join(root, "benchmarks/vendor")
const require = createRequire(Path.join(root, "package.json"))
const source = Path.dirname(require.resolve("@effect/sql-sqlite-node/package.json"))
const { version } = JSON.parse(Fs.readFileSync(Path.join(source, "package.json"), "utf8")) as {
  version: string
}

const licence = Fs.readFileSync(Path.join(source, "LICENSE"), "utf8").trim()
const notice = `/*\nFrom @effect/sql-sqlite-node ${version}, with module paths changed.\n\n${licence}\n*/\n`

const put = (file: string, text: string) => {
  const path = Path.join(target, file)
  if (Fs.existsSync(path) && Fs.readFileSync(path, "utf8") === text) return
  Fs.mkdirSync(target, { recursive: true })
  // Renamed into place: a test that is running meanwhile sees the old file or the new one, never half of one.
  const partial = `${path}.${process.pid}`
  Fs.writeFileSync(partial, text)
  Fs.renameSync(partial, path)
}

for (const extension of ["js", "d.ts"]) {
  const code = Fs.readFileSync(Path.join(source, `dist/SqliteClient.${extension}`), "utf8")
    .replaceAll('"effect/unstable/', '"effect/')
    .replace(/\n?\/\/# sourceMappingURL=.*\n?/, "\n")
  if (code.includes("effect/unstable") || / from "(?!effect\/|node:)/.test(code)) {
    throw new Error(
      `@effect/sql-sqlite-node ${version} imports something new: scripts/vendor.ts has to learn it.`
    )
  }
  put(`sqlite-client.${extension}`, notice + code)
}
