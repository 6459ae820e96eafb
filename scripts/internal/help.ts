/**
 * `--help` of a script: prints the comment at its top. Import this module first, so that nothing else is loaded for it.
 */
import * as Fs from "node:fs"
import { parseArgs, type ParseArgsConfig } from "node:util"

/** The comment at the top of the program that runs. */
const help = (): string => {
  const [comment = ""] = /\/\*\*[^]*?\*\//.exec(Fs.readFileSync(process.argv[1] ?? "", "utf8")) ?? []
  return comment
    .slice("/**".length, -"*/".length)
    .replaceAll(/^ \* ?/gm, "")
    .trim()
}

if (process.argv.slice(2).some((argument) => argument === "--help" || argument === "-h")) {
  process.stdout.write(`${help()}\n`)
  process.exit(0)
}

/** Reads the options of a script. Prints the problem and the help, and exits with 2, if they are invalid. */
export const readOptions = <Config extends ParseArgsConfig>(
  config: Config
): ReturnType<typeof parseArgs<Config>> => {
  try {
    return parseArgs(config)
  } catch (error) {
    process.stderr.write(`${error instanceof Error ? error.message : String(error)}\n\n${help()}\n`)
    process.exit(2)
  }
}
