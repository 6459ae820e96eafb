/**
 * Runs the documentation. Every fence marked `ts run` in README.md, USING.md, the packages' READMEs, docs/ and the doc comments of the packages is
 * type-checked and executed under Node 24 in an empty directory of its own; `ts run continue` continues the one before it. A `ts` fence
 * that does not run must give a reason: `ts no-run <reason>`; it is type-checked all the same. Relative links and their anchors have to
 * resolve, and Mermaid has to read the diagrams. `npm run docs -- README` checks the files whose path contains the word.
 */
import "./internal/help.ts"
import * as Fs from "node:fs"
import * as Os from "node:os"
import * as Path from "node:path"
import { docComments, parse } from "./internal/markdown.ts"
import { indent, mapWidth, root, run, runNode } from "./internal/run.ts"

interface Program {
  readonly source: string
  readonly line: number
  readonly file: string
  readonly code: string
  readonly isRun: boolean
}

const only = process.argv[2] ?? ""
const failures: Array<string> = []
const fail = (where: string, what: string) => failures.push(`${where}: ${what}`)

const under = (folder: string, extension: string): ReadonlyArray<string> =>
  Fs.existsSync(Path.join(root, folder))
    ? Fs.readdirSync(Path.join(root, folder), { recursive: true })
        .map(String)
        .filter((file) => file.endsWith(extension))
        .map((file) => Path.join(folder, file))
    : []

const packages = Fs.readdirSync(Path.join(root, "packages")).map((name) => `packages/${name}`)
const pages = [
  "README.md",
  "USING.md",
  ...packages.map((path) => `${path}/README.md`),
  ...under("docs", ".md")
]
const linked = [...pages, "AGENTS.md", "CONTRIBUTING.md", "CHANGELOG.md"]
const executed = [...pages, ...packages.flatMap((path) => under(`${path}/src`, ".ts"))]

/** The text of a page, or the doc comments of a source. */
const read = (file: string) => {
  const text = Fs.readFileSync(Path.join(root, file), "utf8")
  return file.endsWith(".ts") ? docComments(text) : text
}
const wanted = (file: string) => {
  if (!file.includes(only)) return false
  if (Fs.existsSync(Path.join(root, file))) return true
  fail(file, "does not exist")
  return false
}

/** The programs of a page. Code stays on the line it has in the page, so that an error's line is the page's line. */
const programsOf = (source: string): ReadonlyArray<Program> => {
  const programs: Array<Program> = []
  for (const { info, line, lines } of parse(read(source)).fences) {
    const [language, mode, ...rest] = info.split(/\s+/)
    if (!/^(ts|tsx|js|jsx|mts|typescript|javascript)$/.test(language ?? "")) continue
    if (language !== "ts") fail(`${source}:${line}`, `write code as TypeScript: \`ts run\`, not \`${info}\``)
    else if (mode === "no-run" && rest.length === 0)
      fail(`${source}:${line}`, "`ts no-run` needs a reason after it")
    else if (mode !== "run" && mode !== "no-run")
      fail(`${source}:${line}`, `\`${info}\` is not executed: make it \`ts run\`, or \`ts no-run <reason>\``)
    else if (mode === "run" && rest[0] === "continue") {
      const index = programs.findLastIndex(({ isRun }) => isRun)
      const before = programs[index]
      if (before === undefined) fail(`${source}:${line}`, "`continue` has no fence before it that runs")
      else {
        const gap = "\n".repeat(line - before.code.split("\n").length + 1)
        programs[index] = { ...before, code: before.code + gap + lines.join("\n") }
      }
    } else {
      const file = `${source.replace(/\.(md|ts)$/, "").replace(/[^A-Za-z0-9]+/g, "_")}_L${line}.ts`
      programs.push({ source, line, file, code: "\n".repeat(line) + lines.join("\n"), isRun: mode === "run" })
    }
  }
  return programs
}

const slug = (heading: string) =>
  heading
    .trim()
    .toLowerCase()
    .replace(/\[([^\]]*)\]\([^)]*\)/g, "$1")
    .replace(/[^\p{L}\p{N}\s_-]/gu, "")
    .replace(/\s/g, "-")

const anchors = (file: string) =>
  new Set(
    [...parse(read(file)).prose.matchAll(/^#{1,6}\s+(.+)$/gm)].map(([, heading]) => slug(heading ?? ""))
  )

/** A quotation of a TypeScript file, as the text of a link to it. */
const quote = /\["([^"\]]+)"\]\(([^)\s]+\.ts)\)/g

/** Whether a file contains a text, or the template of a test's title that prints it. */
const says = (file: string, text: string): boolean =>
  file.includes(text) ||
  [...file.matchAll(/\b(?:it|test|effect|live)\(\s*`([^`\n]*\$\{[^`\n]*)`/g)].some(([, template = ""]) => {
    const words = template.split(/\$\{[^}]*\}/).map((part) => part.replaceAll(/[.*+?^${}()|[\]\\]/g, "\\$&"))
    return words.join("").trim() !== "" && new RegExp(`^${words.join(".+")}$`).test(text)
  })

const checkLinks = (source: string): number => {
  const page = parse(read(source)).prose
  const prose = page.replace(/`[^`\n]*`/g, "")
  const targets = [...prose.matchAll(/\]\(\s*<?([^)\s>]+)>?[^)]*\)|^\[[^\]]+\]:\s*(\S+)/gm)].map(
    ([, a, b]) => a ?? b ?? ""
  )
  const relative = targets.filter((target) => !/^[a-z][a-z+.-]*:/i.test(target))
  for (const target of relative) {
    const [path = "", anchor] = target.split("#")
    const file = path === "" ? source : Path.join(Path.dirname(source), decodeURI(path))
    if (!Fs.existsSync(Path.join(root, file))) fail(source, `the link ${target} leads nowhere`)
    else if (anchor !== undefined && file.endsWith(".md") && !anchors(file).has(anchor)) {
      fail(source, `${file} has no heading for the link ${target}`)
    }
  }
  // A page that quotes a file, such as the title of a test, must quote it as it reads, or as the template of a title prints it.
  for (const [, quoted = "", target = ""] of page.matchAll(quote)) {
    const file = Path.join(root, Path.dirname(source), decodeURI(target))
    if (Fs.existsSync(file) && !says(Fs.readFileSync(file, "utf8"), quoted)) {
      fail(source, `${target} does not say "${quoted}"`)
    }
  }
  return relative.length
}

const chosen = linked.filter(wanted)
const links = chosen.reduce((sum, file) => sum + checkLinks(file), 0)
const drawn = chosen.filter((file) => parse(read(file)).fences.some(({ info }) => info === "mermaid"))
if (drawn.length > 0) {
  const { ok, output } = await run("node", ["scripts/docs/diagrams.ts", ...drawn])
  if (!ok) failures.push(output.trimEnd())
}

const programs = [...new Set(executed)]
  .filter((file) => file.includes(only) && Fs.existsSync(Path.join(root, file)))
  .flatMap(programsOf)

// Inside the workspace, where programs resolve their imports.
const folder = Path.join(root, ".tmp/docs")
Fs.rmSync(folder, { recursive: true, force: true })
Fs.mkdirSync(folder, { recursive: true })
for (const { code, file } of programs) Fs.writeFileSync(Path.join(folder, file), `${code}\n`)
Fs.writeFileSync(
  Path.join(folder, "tsconfig.json"),
  JSON.stringify({
    extends: "../../tsconfig.base.json",
    // A page may name a value only to show its type.
    compilerOptions: {
      noEmit: true,
      noUnusedLocals: false,
      rewriteRelativeImportExtensions: false,
      allowImportingTsExtensions: true
    },
    include: ["*.ts"]
  })
)

const executable = programs.filter(({ isRun }) => isRun)
if (programs.length > 0) {
  const checked = await run("node", ["scripts/tsc.ts", "-p", ".tmp/docs"])
  if (!checked.ok) fail("types", `\n${indent(checked.output)}`)
  await mapWidth(executable, 2, async ({ file, line, source }) => {
    const cwd = Fs.mkdtempSync(Path.join(Os.tmpdir(), "fermata-docs-"))
    const result = await runNode([Path.join(folder, file)], { cwd, timeoutMs: 240_000 })
    Fs.rmSync(cwd, { recursive: true, force: true })
    if (!result.ok) fail(`${source}:${line}`, `exited with ${result.code}\n${indent(result.output)}`)
  })
}

for (const failure of failures) console.error(failure)
console.log(
  `${executable.length} programs from ${executed.length} pages and sources, ${links} links, ${drawn.length} pages with diagrams: ${failures.length} problems`
)
process.exitCode = failures.length > 0 ? 1 : 0
