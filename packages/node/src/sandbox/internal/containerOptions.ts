/**
 * The options of sandboxes in containers, and their check.
 */
import { OptionsInvalid } from "@fermata/sdk/domain"
import * as PathGuard from "../../guard/PathGuard.ts"

/** The options of {@link containerSandbox}: either `image`, or the name of an existing `container`. */
export interface ContainerSandboxOptions {
  /** The image from which the container of each run is made. It needs a POSIX shell. */
  readonly image?: string
  /** The name of a container that the program keeps running, in which all runs act. */
  readonly container?: string
  /** The client: `docker`, `podman`, or the path of one. Default: `docker`. */
  readonly program?: string
  /** The directory in the container in which the tools act, unless the runtime names one. Default: `/workspace`, or that of the container. */
  readonly workdir?: string
  /** With `image`: an absolute directory of this machine that is the working directory. Default: none, so the files end with the container. */
  readonly mount?: string
  /** With `image`: whether commands reach the network. Default: `false`. */
  readonly network?: boolean
  /** The user in the container, as `--user` takes it. Default: with `mount` that of this process, otherwise that of the image. */
  readonly user?: string
  /** With `image`: further arguments of `run`, such as `--memory=2g`. They can lift the isolation; the sandbox still reports it. */
  readonly runArgs?: ReadonlyArray<string>
  /** Variables for the commands. */
  readonly env?: Readonly<Record<string, string>>
  /**
   * Rules for the paths of the sandbox's files, beside the working directory. Their directories are absolute and without symbolic links. The
   * option `own` has no effect: only `fermata.db` and `.fermata` are never opened.
   */
  readonly rules?: PathGuard.Rules
}

const isText = (value: unknown): value is string =>
  typeof value === "string" && value !== "" && !value.includes("\0")

/** What begins with `-` would be an option of the client. */
const name = {
  takes: "a name that does not begin with -",
  is: (value: unknown) => isText(value) && !value.startsWith("-")
}
const absolute = { takes: "an absolute path", is: (value: unknown) => isText(value) && value.startsWith("/") }

const shape = {
  demanded: true,
  keys: {
    image: name,
    container: name,
    program: { takes: "the name or the path of a program", is: isText },
    workdir: absolute,
    mount: {
      takes: "an absolute path without a comma",
      is: (value: unknown) => isText(value) && value.startsWith("/") && !value.includes(",")
    },
    network: { takes: "true or false", is: (value: unknown) => typeof value === "boolean" },
    user: name,
    runArgs: {
      takes: "a list of strings that are not empty",
      is: (value: unknown) => Array.isArray(value) && value.every(isText)
    },
    env: {
      takes: "an object of variables with strings",
      is: (value: unknown) =>
        typeof value === "object" &&
        value !== null &&
        !Array.isArray(value) &&
        Object.entries(value).every(
          ([each, text]) =>
            each !== "" && !/[=\0]/.test(each) && typeof text === "string" && !text.includes("\0")
        )
    },
    rules: "anything"
  }
} as const satisfies OptionsInvalid.Shape

/** The options that only a new container can have. */
const ofImages = ["mount", "network", "runArgs"] as const

/** Checks options. Throws `OptionsInvalid`. */
export const checkContainerOptions = (options: ContainerSandboxOptions): void => {
  const problem = OptionsInvalid.problemOf("containerSandbox", options, shape)
  if (problem !== undefined) throw problem
  if (options.rules !== undefined) PathGuard.make(options.rules)
  const { container, image } = options
  if ((container === undefined) === (image === undefined))
    throw refused("give an image or a container, and not both")
  if (container === undefined) return
  for (const each of ofImages)
    if (options[each] !== undefined)
      throw refused(`${each} belongs to a container that is made, and this one is there`)
}

const refused = (problem: string): OptionsInvalid.OptionsInvalid => {
  const of = "containerSandbox"
  return new OptionsInvalid.OptionsInvalid({ of, misfits: [{ place: `the options of ${of}`, problem }] })
}
