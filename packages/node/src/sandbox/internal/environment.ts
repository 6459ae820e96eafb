/**
 * The environment of commands: the variables of this process that hold no secrets, and those that the options add.
 */

const inherited = new Set([
  "PATH",
  "HOME",
  "USER",
  "LOGNAME",
  "SHELL",
  "LANG",
  "LANGUAGE",
  "TERM",
  "COLORTERM",
  "NO_COLOR",
  "TZ",
  "TMPDIR",
  "TEMP",
  "TMP",
  // Programs on Windows do not start without these.
  "SYSTEMROOT",
  "COMSPEC",
  "PATHEXT",
  "USERPROFILE"
])

const defaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

/** The variables of commands. Without `PATH` in this process, it is the usual one. */
export const environment = (
  options: {
    readonly env?: Readonly<Record<string, string>>
    readonly inheritEnv?: ReadonlyArray<string>
  },
  from: NodeJS.ProcessEnv = process.env
): Readonly<Record<string, string>> => {
  const result: Record<string, string> = { PATH: defaultPath }
  for (const [name, value] of Object.entries(from)) {
    if (value === undefined) continue
    const isInherited = inherited.has(name.toUpperCase()) || name.startsWith("LC_")
    if (isInherited || options.inheritEnv?.includes(name) === true) result[name] = value
  }
  return { ...result, ...options.env }
}
