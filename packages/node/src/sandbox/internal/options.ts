/**
 * The options of the sandboxes on this machine, and their check.
 */
import { OptionsInvalid } from "@fermata/sdk/domain"
import * as PathGuard from "../../guard/PathGuard.ts"

/** The options of a sandbox on this machine. */
export interface LocalSandboxOptions {
  /** The directory in which the tools act, unless the runtime names one. Default: the working directory of the process. */
  readonly workdir?: string
  /** Variables for the commands, besides those of the process that never hold secrets, such as `PATH` and `LANG`. */
  readonly env?: Readonly<Record<string, string>>
  /** The names of further variables of the process that the commands get. */
  readonly inheritEnv?: ReadonlyArray<string>
  /** Further directories whose files may be read. */
  readonly readable?: ReadonlyArray<string>
  /**
   * Rules for the paths of the sandbox's files, beside the working directory and `readable`. Directories under `write` may be changed by
   * commands, too.
   */
  readonly rules?: PathGuard.Rules
}

/** The options of a sandbox that bubblewrap confines. */
export interface BubblewrapSandboxOptions extends LocalSandboxOptions {
  /**
   * Whether commands reach the network, including the services of this machine and its abstract sockets. Default: `false`.
   */
  readonly network?: boolean
  /**
   * Names in the working directory that commands may read and not change, if they exist when the sandbox is opened. Default:
   * those of version control, editors and agents, such as `.git` and `.vscode`.
   */
  readonly protect?: ReadonlyArray<string>
  /** Further places of this machine that commands do not see, such as the data of other programs. */
  readonly hide?: ReadonlyArray<string>
}

const text = (value: unknown) => typeof value === "string" && value !== "" && !value.includes("\0")
const texts = {
  takes: "a list of strings that are not empty",
  is: (value: unknown) => Array.isArray(value) && value.every(text)
}
const isName = (name: string) => name !== "" && !/[=\0]/.test(name)

const oneName = (value: unknown) =>
  typeof value === "string" && !/[/\0]/.test(value) && !["", ".", ".."].includes(value)

const localKeys = {
  workdir: { takes: "the path of a directory", is: text },
  env: {
    takes: "an object of variables with strings",
    is: (value: unknown) =>
      typeof value === "object" &&
      value !== null &&
      !Array.isArray(value) &&
      Object.entries(value).every(
        ([name, each]) => isName(name) && typeof each === "string" && !each.includes("\0")
      )
  },
  inheritEnv: texts,
  readable: texts,
  rules: "anything"
} as const

const shapes = {
  localSandbox: { keys: localKeys },
  bubblewrapSandbox: {
    keys: {
      ...localKeys,
      network: { takes: "true or false", is: (value: unknown) => typeof value === "boolean" },
      protect: {
        takes: "a list of names without /",
        is: (value: unknown) => Array.isArray(value) && value.every(oneName)
      },
      hide: texts
    }
  }
}

/** Checks options. Throws `OptionsInvalid`. */
export const checkOptions = (
  of: "localSandbox" | "bubblewrapSandbox" | "machineSandbox",
  options: BubblewrapSandboxOptions
): void => {
  const shape = of === "localSandbox" ? shapes.localSandbox : shapes.bubblewrapSandbox
  const problem = OptionsInvalid.problemOf(of, options, shape)
  if (problem !== undefined) throw problem
  if (options.rules !== undefined) PathGuard.make(options.rules)
}

/** The options that a sandbox without isolation has, too. */
export const localOptionsOf = (options: BubblewrapSandboxOptions): LocalSandboxOptions =>
  Object.fromEntries(Object.entries(options).filter(([name]) => name in localKeys))

/** The rules of a sandbox's files. */
export const rulesOf = (
  { readable = [], rules = {} }: LocalSandboxOptions,
  workdir: string
): PathGuard.Rules => ({
  ...rules,
  write: [workdir, ...(rules.write ?? [])],
  read: [...readable, ...(rules.read ?? [])]
})
