/**
 * Builds the API reference from the doc comments of the published packages: static HTML in `dist/api`, with a search that needs no
 * server. One page for each namespace, function, class and type; modules are named as a program imports them.
 */
import "../internal/help.ts"
import * as Fs from "node:fs"
import * as Path from "node:path"
import {
  Application,
  Comment,
  type DeclarationReflection,
  LogLevel,
  OptionDefaults,
  ReflectionKind,
  type TranslatedString
} from "typedoc"
import ts from "typescript"
import { root } from "../internal/run.ts"

interface Manifest {
  readonly name: string
  readonly description: string
  readonly exports: Readonly<Record<string, { readonly "@fermata/source"?: string } | string | null>>
}

/** A subpath export of one namespace. Its page belongs to the folder that exports the namespace. */
const ofNamespace = /^\.\/([a-z]+\/)?[A-Z]\w*$/

interface Entry {
  /** By which programs import it. */
  readonly name: string
  readonly source: string
  /** Of the package, or of the folder in the package's README. */
  readonly sentence: string | undefined
}

const entriesOf = (folder: string): ReadonlyArray<Entry> => {
  const path = Path.join(root, "packages", folder)
  const { description, exports, name } = JSON.parse(
    Fs.readFileSync(Path.join(path, "package.json"), "utf8")
  ) as Manifest
  const readme = Fs.readFileSync(Path.join(path, "README.md"), "utf8")
  const rows = new Map(
    [...readme.matchAll(/^\| `([^`]+)`\s*\| (.+?)\s*\|$/gm)].map(([, key, says]) => [key, says])
  )
  return Object.entries(exports).flatMap(([subpath, target]) => {
    const source = typeof target === "object" ? target?.["@fermata/source"] : undefined
    if (source === undefined || ofNamespace.test(subpath)) return []
    const specifier = Path.posix.join(name, subpath)
    return {
      name: specifier,
      source: Path.join(path, source),
      sentence: subpath === "." ? description : rows.get(specifier)
    }
  })
}

/**
 * What several entry points export has its page under the first: folders come before the package that exports them all, and the SDK before
 * the packages on top of it.
 */
const entries = ["sdk", "node", "ai-sdk"].flatMap((folder) => {
  const own = entriesOf(folder)
  return [...own.slice(1), ...own.slice(0, 1)]
})

/** Marks the paragraph that opens a module as the module's own, which TypeDoc would otherwise take for that of its first statement. */
const withModuleTag = (text: string): string =>
  text.replace(/^\/\*\*\n(?: \*.*\n)*? \*\/\n(?=\n*(?:import|export (?:type )?[{*]|\/\*\*))/, (header) =>
    header.replace(/ \*\/\n$/, " * @packageDocumentation\n */\n")
  )

/** What has to have a doc comment. */
const documented =
  ReflectionKind.Class |
  ReflectionKind.Function |
  ReflectionKind.Interface |
  ReflectionKind.Module |
  ReflectionKind.Namespace |
  ReflectionKind.TypeAlias |
  ReflectionKind.Variable

const { readFile } = ts.sys
ts.sys.readFile = (path, encoding) => {
  const text = readFile(path, encoding)
  return text !== undefined && /\/packages\/[^/]+\/src\//.test(path) ? withModuleTag(text) : text
}

const app = await Application.bootstrap({
  name: "Fermata",
  entryPoints: entries.map(({ source }) => source),
  sortEntryPoints: false,
  tsconfig: Path.join(root, "scripts/docs/tsconfig.packages.json"),
  out: process.argv[2] ?? Path.join(root, "dist/api"),
  readme: "none",
  excludeExternals: true,
  skipErrorChecking: true,
  disableSources: true,
  logLevel: LogLevel.Warn,
  searchInComments: true,
  navigation: { excludeReferences: true },
  useFirstParagraphOfCommentAsSummary: true,
  // Knip's, for two names of one thing.
  blockTags: [...OptionDefaults.blockTags, "@alias"],
  excludeTags: ["@alias"]
})
const points = (app.getEntryPoints() ?? []).map((point) => ({
  ...point,
  displayName: entries.find(({ source }) => source === point.sourceFile.fileName)?.name ?? point.displayName
}))
const project = app.converter.convert(points)
for (const module of project.children ?? []) {
  const sentence = entries.find(({ name }) => name === module.name)?.sentence
  if (!module.hasComment() && sentence !== undefined)
    module.comment = new Comment([
      { kind: "text", text: `${sentence[0]!.toUpperCase()}${sentence.slice(1)}` }
    ])
}
app.validate(project)
for (const reflection of project.getReflectionsByKind(documented) as Array<DeclarationReflection>) {
  const isDocumented =
    reflection.hasComment() || reflection.signatures?.some((signature) => signature.hasComment()) === true
  if (!isDocumented) app.logger.warn(`${reflection.getFullName()} has no doc comment` as TranslatedString)
}
await app.generateOutputs(project)
if (app.logger.hasErrors() || app.logger.hasWarnings()) process.exitCode = 1
