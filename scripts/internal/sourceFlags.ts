/**
 * The Node flags under which a child process resolves `@fermata/*` to the sources. There are none where `FERMATA_BUILT` is set, as it is by
 * `npm run verify` after its build: the built packages load in a third of the time.
 */
export const sourceFlags: ReadonlyArray<string> =
  process.env["FERMATA_BUILT"] === "1" ? [] : ["--conditions=@fermata/source"]
