/**
 * Tests the packages as a user installs them. Builds and packs every published package, lints the tarballs (publint) and their file
 * lists, and installs them into an empty program outside the workspace. There the README's first program is type-checked and run, also
 * on the oldest supported Node, the newest, Bun and Deno; every export is imported; and the CPU time of importing `@fermata/sdk` and
 * `@fermata/node` is compared with that of the parts of Effect that they need. Two compilers emit declarations for that program, for
 * every export and for the programs in `packages/`, and for one that pnpm installs with `@fermata/node` alone, checking the libraries'
 * declarations, too: every inferred type must have a public name. The packed AGENTS.md is the one for users, USING.md, and its links lead to
 * files of `@fermata/node`.
 */
import "./internal/help.ts"
import * as Fs from "node:fs"
import * as Os from "node:os"
import * as Path from "node:path"
import { parse } from "./internal/markdown.ts"
import { indent, mapWidth, root, run, type RunResult } from "./internal/run.ts"
import { findRuntimes } from "./internal/runtimes.ts"

interface Manifest {
  readonly name: string
  readonly version: string
  readonly private?: boolean
  readonly exports: Readonly<Record<string, unknown>>
}

interface Packed {
  readonly name: string
  readonly filename: string
  readonly size: number
  readonly files: ReadonlyArray<{ readonly path: string }>
}

const forbidden = /\.tsbuildinfo$|\.env|(^|\/)(test|typetest|fixtures|node_modules)\/|\.test\.|\.tst\./
const required = [
  "package.json",
  "README.md",
  "LICENSE",
  "AGENTS.md",
  "dist/index.js",
  "dist/index.d.ts",
  "src/index.ts"
]
/**
 * The most that importing a package's main entry may cost, relative to the two Effect modules that it cannot do without. Measured: 1.5 for
 * the SDK, and 1.6 to 1.75 for `@fermata/node`.
 */
const maxImportRatio = 1.75
const importRuns = 9
/**
 * Compilers of users: the newest, and the last one before the major version that the newest was ported from. The older one is slow, and
 * does not compile the file that spells every export out.
 */
const compilers = {
  "TypeScript 7": { compiler: "typescript", project: "tsconfig.json" },
  "TypeScript 5.9": { compiler: "typescript-5", project: "tsconfig.programs.json" }
}
const resolutions = {
  nodenext: ["--module", "nodenext"],
  bundler: ["--module", "esnext", "--moduleResolution", "bundler"]
}

const tsconfig = {
  compilerOptions: {
    target: "ES2023",
    strict: true,
    exactOptionalPropertyTypes: true,
    skipLibCheck: true,
    declaration: true,
    emitDeclarationOnly: true,
    types: ["node"]
  },
  include: ["*.ts"]
}

/** The same, checking the libraries' declarations, too. Those of the AI SDK lack a dependency. */
const withLibraries = {
  ...tsconfig,
  compilerOptions: { ...tsconfig.compilerOptions, skipLibCheck: false },
  include: ["alone.ts"]
}

interface Compilation {
  readonly name: string
  /** The folder of the program. */
  readonly cwd: string
  readonly compiler: string
  readonly project: string
  readonly flags: ReadonlyArray<string>
}

class Failure extends Error {}

const need = (result: RunResult, what: string): RunResult => {
  if (!result.ok) throw new Failure(`${what} failed\n${indent(result.output)}`)
  return result
}

const packages = Fs.readdirSync(Path.join(root, "packages"))
  .map((folder) => {
    const path = Path.join(root, "packages", folder)
    return {
      path,
      manifest: JSON.parse(Fs.readFileSync(Path.join(path, "package.json"), "utf8")) as Manifest
    }
  })
  .filter(({ manifest }) => manifest.private !== true)

const program = Fs.mkdtempSync(Path.join(Os.tmpdir(), "fermata-packages-"))
/** The program that pnpm installs. */
const alone = Path.join(program, "alone")

const pack = async (path: string): Promise<Packed> => {
  const { stdout } = need(
    await run("npm", ["pack", "--json", "--pack-destination", program], { cwd: path }),
    `npm pack in ${path}`
  )
  const [packed] = JSON.parse(stdout) as [Packed]
  const files = packed.files.map((file) => file.path)
  const missing = required.filter((file) => !files.includes(file))
  const surplus = files.filter((file) => forbidden.test(file))
  if (missing.length > 0) throw new Failure(`the tarball of ${packed.name} lacks ${missing.join(", ")}`)
  if (surplus.length > 0)
    throw new Failure(`the tarball of ${packed.name} must not hold ${surplus.join(", ")}`)
  await checkGuide(packed, files)
  need(
    await run("publint", ["run", "--strict", Path.join(program, packed.filename)]),
    `publint of ${packed.name}`
  )
  return packed
}

/** Fails unless AGENTS.md is the page for users, whose links lead to files of the package that has the documentation. */
const checkGuide = async ({ filename, name }: Packed, files: ReadonlyArray<string>) => {
  const packed = await run("tar", ["-xzOf", Path.join(program, filename), "package/AGENTS.md"])
  const page = Fs.readFileSync(Path.join(root, "USING.md"), "utf8")
  if (need(packed, `reading AGENTS.md of ${name}`).stdout !== page)
    throw new Failure(`AGENTS.md in the tarball of ${name} is not USING.md`)
  if (!files.some((file) => file.startsWith("docs/"))) return
  const links = [...page.matchAll(/\]\(([^)#]+)[^)]*\)/g)].map(([, path = ""]) => path)
  const broken = links.filter((path) => !files.includes(path))
  if (broken.length > 0)
    throw new Failure(`AGENTS.md in the tarball of ${name} links to ${broken.join(", ")}`)
}

/** The README's first program. */
const quickstart = () => {
  const fence = parse(Fs.readFileSync(Path.join(root, "README.md"), "utf8")).fences.find(
    ({ info }) => info === "ts run"
  )
  if (fence === undefined) throw new Failure("README.md has no `ts run` fence to run as the quickstart")
  return `${fence.lines.join("\n")}\n`
}

/** The program in the form that the README gives for Node before 24. */
const closing = (code: string) => {
  const replaced = code.replace("await using fermata =", "const fermata =")
  if (replaced === code) throw new Failure("the quickstart does not say `await using fermata`")
  return `${replaced}await fermata.close()\n`
}

/** Emits the declarations of the program, and fails on paths in them that no other program can import. */
const checkNames = async ({ compiler, cwd, flags, name, project }: Compilation) => {
  const outDir = Path.join(program, `declarations of ${name}`)
  const tsc = Path.join(root, "node_modules", compiler, "bin/tsc")
  need(
    await run("node", [tsc, "-p", project, ...flags, "--outDir", outDir], { cwd }),
    `type check with ${name}`
  )
  for (const file of Fs.readdirSync(outDir)) {
    const [path] =
      /"[^"]*\/(internal|node_modules)\/[^"]*"/.exec(Fs.readFileSync(Path.join(outDir, file), "utf8")) ?? []
    if (path !== undefined) throw new Failure(`${name} emits a declaration of ${file} that imports ${path}`)
  }
  console.log(`every inferred type has a public name for ${name}`)
}

/** Milliseconds of CPU time that a fresh process spends on the imports. */
const importCost = async (specifiers: ReadonlyArray<string>): Promise<number> => {
  const code = `const before = process.cpuUsage()
await Promise.all(${JSON.stringify(specifiers)}.map((specifier) => import(specifier)))
const { user, system } = process.cpuUsage(before)
console.log((user + system) / 1000)`
  const { stdout } = need(
    await run("node", ["--input-type=module", "--eval", code], { cwd: program }),
    `import of ${specifiers.join(", ")}`
  )
  return Number(stdout)
}

/** How many times the cost of the two Effect modules an import costs: the median of pairs, as the machine's speed changes. */
const importRatio = async (entry: string): Promise<number> => {
  const ratios: Array<number> = []
  for (let index = 0; index < importRuns; index += 1) {
    const floor = await importCost(["effect/Schema", "effect/Stream"])
    ratios.push((await importCost([entry])) / floor)
  }
  return ratios.sort((one, other) => one - other)[importRuns >> 1]!
}

const write = (file: string, content: string | object, folder = program) =>
  Fs.writeFileSync(
    Path.join(folder, file),
    typeof content === "string" ? content : JSON.stringify(content, null, 2)
  )

/** Installs a program with pnpm, whose layout lets a program import only the packages that it names: `@fermata/node` and zod. */
const installAlone = async (packed: ReadonlyArray<Packed>) => {
  const fileOf = (name: string) => `file:../${packed.find((one) => one.name === name)?.filename}`
  Fs.mkdirSync(alone)
  write(
    "package.json",
    {
      private: true,
      type: "module",
      dependencies: { "@fermata/node": fileOf("@fermata/node"), zod: versionOf("zod") },
      devDependencies: { "@types/node": versionOf("@types/node") },
      pnpm: { overrides: { "@fermata/sdk": fileOf("@fermata/sdk") } }
    },
    alone
  )
  write("tsconfig.json", withLibraries, alone)
  Fs.copyFileSync(Path.join(root, "scripts/packages/alone.ts"), Path.join(alone, "alone.ts"))
  const args = ["install", "--prefer-offline", "--ignore-scripts", "--store-dir", Path.join(program, "pnpm")]
  need(await run("pnpm", args, { cwd: alone }), "pnpm install of the tarballs")
}

const check = async () => {
  need(await run("node", ["scripts/build.ts"]), "build")
  const packed: Array<Packed> = []
  for (const { path } of packages) packed.push(await pack(path))
  for (const { filename, files, name, size } of packed) {
    console.log(`${name}: ${files.length} files, ${Math.round(size / 1024)} kB (${filename})`)
  }

  write("package.json", {
    private: true,
    type: "module",
    dependencies: Object.fromEntries(packed.map(({ filename, name }) => [name, `file:${filename}`])),
    devDependencies: { "@types/node": versionOf("@types/node"), zod: versionOf("zod") }
  })
  write("tsconfig.json", tsconfig)
  write("tsconfig.alone.json", withLibraries)
  write("tsconfig.programs.json", { extends: "./tsconfig.json", exclude: ["everything.ts"] })
  write("quickstart.ts", quickstart())
  const specifiers = packages.flatMap(({ manifest }) =>
    Object.entries(manifest.exports)
      .filter(([, target]) => target !== null)
      .map(([path]) => Path.posix.join(manifest.name, path))
      .filter((specifier) => !specifier.endsWith("package.json"))
  )
  // A static import would give its module's types names that a program does not have otherwise.
  write(
    "everything.ts",
    specifiers
      .map(
        (specifier, index) => `export const _${index} = import("${specifier}").then((all) => ({ ...all }))\n`
      )
      .join("")
  )
  for (const file of ["alone.ts", "promises.ts", "effects.ts"]) {
    Fs.copyFileSync(Path.join(root, "scripts/packages", file), Path.join(program, file))
  }

  need(
    await run("npm", ["install", "--prefer-offline", "--no-audit", "--no-fund"], { cwd: program }),
    "npm install of the tarballs"
  )
  const copies = need(
    await run("npm", ["ls", "effect", "--all", "--parseable"], { cwd: program }),
    "npm ls effect"
  )
  if (new Set(copies.stdout.trim().split("\n")).size !== 1)
    throw new Failure(`more than one effect is installed:\n${copies.stdout}`)
  await installAlone(packed)
  const compilations = Object.entries(compilers).flatMap(([version, compiler]) =>
    Object.entries(resolutions).flatMap(([resolution, flags]) => [
      { name: `${version} (${resolution})`, ...compiler, flags, cwd: program },
      {
        name: `${version} (${resolution}, alone)`,
        ...compiler,
        project: "tsconfig.alone.json",
        flags,
        cwd: program
      },
      { name: `${version} (${resolution}, pnpm)`, ...compiler, project: "tsconfig.json", flags, cwd: alone }
    ])
  )
  await mapWidth(compilations, 2, checkNames)
  need(await run("node", ["everything.ts"], { cwd: program, timeoutMs: 240_000 }), "import of every export")
  need(await run("node", ["quickstart.ts"], { cwd: program, timeoutMs: 240_000 }), "the quickstart")
  for (const { command, hasUsing, missing, name } of findRuntimes()) {
    if (command === undefined) {
      console.log(`skipped the quickstart on ${name}: ${missing}`)
      continue
    }
    const [runtime, ...args] = command
    // A new directory: the store of the previous run would hold its runs.
    const cwd = Fs.mkdtempSync(Path.join(program, "run-"))
    Fs.writeFileSync(Path.join(cwd, "quickstart.ts"), hasUsing ? quickstart() : closing(quickstart()))
    need(
      await run(runtime, [...args, "quickstart.ts"], { cwd, timeoutMs: 240_000 }),
      `the quickstart on ${name}`
    )
    console.log(`the quickstart runs on ${name}`)
  }

  for (const entry of ["@fermata/sdk", "@fermata/node"]) {
    for (let attempt = 1; ; attempt += 1) {
      const ratio = await importRatio(entry)
      const cost = `import("${entry}") takes ${ratio.toFixed(2)} x the CPU of Schema and Stream`
      // A busy machine can slow one of the two measurements more than the other.
      if (ratio > maxImportRatio && attempt < 5) continue
      if (ratio > maxImportRatio) throw new Failure(`${cost}, more than ${maxImportRatio} x, five times`)
      console.log(cost)
      break
    }
  }
}

const versionOf = (name: string): string =>
  (JSON.parse(Fs.readFileSync(Path.join(root, "node_modules", name, "package.json"), "utf8")) as Manifest)
    .version

try {
  await check()
} catch (failure) {
  console.error(failure instanceof Failure ? failure.message : failure)
  process.exitCode = 1
} finally {
  Fs.rmSync(program, { recursive: true, force: true })
}
