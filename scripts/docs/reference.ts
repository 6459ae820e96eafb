/**
 * Builds the API reference from the doc comments of the published packages: static HTML in `dist/api`, with a search that needs no
 * server. One page for each namespace, function, class and type; modules are named as a program imports them.
 */
import * as Fs from "node:fs"
import * as Path from "node:path"
import {
  Application,
  type DeclarationReflection,
  LogLevel,
  ReflectionKind,
  type TranslatedString
} from "typedoc"
import ts from "typescript"
import { root } from "../internal/run.ts"

interface Manifest {
  readonly name: string
  readonly exports: Readonly<Record<string, { readonly "@fermata/source"?: string } | string | null>>
}

/** A subpath export of one namespace. Its page belongs to the folder that exports the namespace. */
const ofNamespace = /^\.\/([a-z]+\/)?[A-Z]\w*$/

/**
 * The sources of the entry points, with the names by which programs import them. What several of them export has its page under the
 * first: folders come before the package that exports them all, and the SDK before the packages on top of it.
 */
const entries = new Map(
  ["sdk", "node", "ai-sdk"].flatMap((folder) => {
    const path = Path.join(root, "packages", folder)
    const manifest = JSON.parse(Fs.readFileSync(Path.join(path, "package.json"), "utf8")) as Manifest
    return Object.entries(manifest.exports)
      .toSorted(([a], [b]) => Number(a === ".") - Number(b === "."))
      .flatMap(([subpath, target]): Array<[string, string]> => {
        const source = typeof target === "object" ? target?.["@fermata/source"] : undefined
        if (source === undefined || ofNamespace.test(subpath)) return []
        return [[Path.join(path, source), Path.posix.join(manifest.name, subpath)]]
      })
  })
)

/** Marks the paragraph that opens a module as the module's own, which TypeDoc would otherwise take for that of its first statement. */
const withModuleTag = (text: string): string =>
  text.replace(/^\/\*\*\n(?: \*.*\n)*? \*\/\n(?=import|export (?:type )?[{*]|\/\*\*)/, (header) =>
    header.replace(/ \*\/\n$/, " * @packageDocumentation\n */\n")
  )

/** What has to have a doc comment. */
const documented =
  ReflectionKind.Class |
  ReflectionKind.Function |
  ReflectionKind.Interface |
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
  entryPoints: [...entries.keys()],
  // What several entry points export is described at the first, and the others link to it.
  sortEntryPoints: false,
  tsconfig: Path.join(root, "scripts/docs/tsconfig.packages.json"),
  out: process.argv[2] ?? Path.join(root, "dist/api"),
  readme: "none",
  excludeExternals: true,
  skipErrorChecking: true,
  disableSources: true,
  logLevel: LogLevel.Warn,
  searchInComments: true
})
const points = (app.getEntryPoints() ?? []).map((point) => ({
  ...point,
  displayName: entries.get(point.sourceFile.fileName) ?? point.displayName
}))
const project = app.converter.convert(points)
app.validate(project)
for (const reflection of project.getReflectionsByKind(documented) as Array<DeclarationReflection>) {
  const isDocumented =
    reflection.hasComment() || reflection.signatures?.some((signature) => signature.hasComment()) === true
  if (!isDocumented) app.logger.warn(`${reflection.getFullName()} has no doc comment` as TranslatedString)
}
await app.generateOutputs(project)
if (app.logger.hasErrors() || app.logger.hasWarnings()) process.exitCode = 1
