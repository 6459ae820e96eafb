/**
 * The tools with which a model reads, searches and changes files.
 *
 * With the option `root`, a tool acts in this directory of this machine, behind a `PathGuard`. Without it, a tool acts in the sandbox of
 * the run. The definition of the tool fixes which of the two it is: a tool whose sandbox is missing waits, and never acts on this machine
 * instead.
 *
 * Reading inside of the workspace needs no approval, except for places that can hold credentials. Each change needs an approval, whose
 * request shows a diff.
 *
 * @since 0.2.0
 */
export { editFile, writeFile } from "./internal/files/changingTools.ts"
export { listDir, readFile, searchFiles } from "./internal/files/readingTools.ts"
export type { FileToolOptions } from "./internal/files/acting.ts"
