/**
 * The options of the sandboxes on other machines and in terminals, and their checks.
 */
import { OptionsInvalid } from "@fermata/sdk/domain"
import * as Duration from "effect/Duration"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import * as PathGuard from "../../guard/PathGuard.ts"
import type { LocalSandboxOptions } from "./options.ts"
import { hostnameOf } from "./toolboxAddress.ts"

/** The options of sandboxes on a machine that this process reaches through another program. */
interface RemoteOptions {
  /** Variables for the commands. */
  readonly env?: Readonly<Record<string, string>>
  /**
   * Rules for the paths of the sandbox's files, beside the working directory. Their directories are absolute and without symbolic links. The
   * option `own` has no effect: only `fermata.db` and `.fermata` are never opened.
   */
  readonly rules?: PathGuard.Rules
}

/** The options of {@link sshSandbox}. */
export interface SshSandboxOptions extends RemoteOptions {
  /** The host as the `ssh` client takes it: a name, an address or an alias of its configuration. */
  readonly host: string
  /** The user on the host. Default: that of the configuration of `ssh`. */
  readonly user?: string
  /** The port. Default: that of the configuration of `ssh`. */
  readonly port?: number
  /** The file of the private key, which has no passphrase or is held by an agent. Default: the keys of the configuration of `ssh`. */
  readonly identityFile?: string
  /** The configuration file of `ssh`. Default: that of the user. */
  readonly configFile?: string
  /** Further options of `ssh`, such as `UserKnownHostsFile=/etc/fermata/known_hosts`. They take precedence. */
  readonly sshOptions?: ReadonlyArray<string>
  /** The `ssh` client. Default: `ssh`. */
  readonly program?: string
  /**
   * The directory on the host in which the tools act, unless the runtime names one. It has to exist. Default: the directory in which a login
   * starts.
   */
  readonly workdir?: string
}

/** The options of {@link tmuxSandbox}. */
export interface TmuxSandboxOptions extends LocalSandboxOptions {
  /**
   * The path of the socket of the tmux server, with which a person attaches: at most 100 bytes. A running server is used. Default: one in a
   * private directory for temporary files; `tmuxCommand` names it.
   */
  readonly socket?: string
  /** The size of the terminal in characters while no person is attached. Default: 200 columns, 50 rows. */
  readonly size?: { readonly columns: number; readonly rows: number }
}

/** The options of {@link daytonaSandbox}. */
export interface DaytonaSandboxOptions extends RemoteOptions {
  /** The key of the API. Default: the environment variable `DAYTONA_API_KEY`, when a sandbox is opened. */
  readonly apiKey?: string | Redacted.Redacted<string>
  /** The address of the API. Default: the environment variable `DAYTONA_API_URL`, or that of Daytona's cloud. */
  readonly apiUrl?: string
  /**
   * Further hosts to which the key may be sent, by name or address without a port. The API's own host and `proxy.` before it are always
   * allowed. The API names the host that serves the commands and files of a sandbox; opening fails if that host is not allowed. Needed if a
   * Daytona of your own uses another proxy.
   */
  readonly toolboxHosts?: ReadonlyArray<string>
  /** The region of new sandboxes. Default: that of the account. */
  readonly target?: string
  /** The snapshot from which new sandboxes are made. Default: Daytona's. */
  readonly snapshot?: string
  /** Labels of new sandboxes, beside `fermata.run` and `fermata.session`. */
  readonly labels?: Readonly<Record<string, string>>
  /** The directory in the sandbox in which the tools act, unless the runtime names one. It is created. Default: the sandbox's own. */
  readonly workdir?: string
  /**
   * The time without activity after which a sandbox is stopped. It keeps its files, and the next call starts it again. Rounded up to whole
   * minutes; 0 for no limit. Default: 15 minutes.
   */
  readonly autoStop?: Duration.Input
  /** How long a stopped sandbox is kept before Daytona deletes it. Default: no limit, because a held run may need it. */
  readonly autoDelete?: Duration.Input
  /** How long a sandbox exists at most, in use or not. Default: no limit. */
  readonly timeToLive?: Duration.Input
  /**
   * Whether an open sandbox is kept active, so that `autoStop` does not stop it while a run of this process waits. It costs as much as a
   * running sandbox. Default: `false`.
   */
  readonly keepActive?: boolean
  /**
   * What the close of the runtime does with a sandbox. `keep` leaves it to `autoStop`, because another process may drive its run. `stop`
   * stops it at once, and a resumed run starts it again; use it only if no other process drives its runs. `destroy` deletes it; use it for
   * runs that are not continued. Default: `keep`.
   */
  readonly onRelease?: "keep" | "stop" | "destroy"
}

interface Kind {
  readonly takes: string
  readonly is: (value: unknown) => boolean
  readonly required?: true
}

const isText = (value: unknown): value is string =>
  typeof value === "string" && value !== "" && !value.includes("\0")

const text: Kind = { takes: "a text that is not empty", is: isText }

const directory: Kind = { takes: "the path of a directory", is: isText }

const texts: Kind = {
  takes: "a list of strings that are not empty",
  is: (value) => Array.isArray(value) && value.every(isText)
}

const variables: Kind = {
  takes: "an object of variables with strings",
  is: (value) =>
    typeof value === "object" &&
    value !== null &&
    !Array.isArray(value) &&
    Object.entries(value).every(
      ([name, each]) => name !== "" && !/[=\0]/.test(name) && typeof each === "string" && !each.includes("\0")
    )
}

/** Excludes texts that `ssh` would take for an option, or that a shell would interpret. */
const host: Kind = {
  takes: "a name or an address of a host",
  is: (value) => typeof value === "string" && /^[\p{L}\p{N}_][\p{L}\p{N}_.:@%[\]-]*$/u.test(value),
  required: true
}

const user: Kind = {
  takes: "the name of a user",
  is: (value) => typeof value === "string" && /^[\p{L}\p{N}_][\p{L}\p{N}_.@\\-]*$/u.test(value)
}

const natural = (most: number, least = 1): Kind["is"] => {
  return (value) => Number.isSafeInteger(value) && Number(value) >= least && Number(value) <= most
}

const minutes: Kind = {
  takes: 'a duration, such as "15 minutes"',
  is: (value) => minutesOf(value) !== undefined
}

/** A duration in minutes, rounded up; `undefined` if the value is not a finite duration from 0 on. */
export const minutesOf = (value: unknown): number | undefined => {
  const isDuration = Duration.isDuration(value) || typeof value === "string" || typeof value === "number"
  const ms = isDuration
    ? Option.map(Duration.fromInput(value as Duration.Input), Duration.toMillis)
    : Option.none()
  return Option.isSome(ms) && Number.isFinite(ms.value) && ms.value >= 0
    ? Math.ceil(ms.value / 60_000)
    : undefined
}

/** Whether a text is an address of an API. */
export const isApiUrl = (value: unknown): value is string =>
  typeof value === "string" && /^https?:\/\/./.test(value) && URL.canParse(value)

const remoteKeys = { env: variables, rules: "anything" } as const

const shapes = {
  sshSandbox: {
    demanded: true,
    keys: {
      ...remoteKeys,
      host,
      user,
      workdir: directory,
      port: { takes: "a number from 1 to 65535", is: natural(65_535) },
      identityFile: text,
      configFile: text,
      sshOptions: texts,
      program: text
    }
  },
  tmuxSandbox: {
    keys: {
      ...remoteKeys,
      workdir: directory,
      inheritEnv: texts,
      readable: texts,
      socket: {
        takes: "a path of at most 100 bytes",
        is: (value: unknown) => isText(value) && Buffer.byteLength(value) <= 100
      },
      size: {
        demanded: true,
        keys: {
          columns: { takes: "a number from 20 to 1000", is: natural(1000, 20), required: true },
          rows: { takes: "a number from 5 to 500", is: natural(500, 5), required: true }
        }
      }
    }
  },
  daytonaSandbox: {
    keys: {
      ...remoteKeys,
      apiKey: {
        takes: "a key, as a text or as a redacted text",
        is: (value: unknown) => isText(Redacted.isRedacted(value) ? Redacted.value(value) : value)
      },
      apiUrl: {
        takes: "an address that begins with https:// or http://",
        is: isApiUrl
      },
      toolboxHosts: {
        takes: "a list of names or addresses of hosts, without a port",
        is: (value: unknown) =>
          Array.isArray(value) &&
          value.every((each) => typeof each === "string" && hostnameOf(each) !== undefined)
      },
      target: text,
      snapshot: text,
      labels: variables,
      workdir: directory,
      autoStop: minutes,
      autoDelete: minutes,
      timeToLive: minutes,
      keepActive: { takes: "true or false", is: (value: unknown) => typeof value === "boolean" },
      onRelease: {
        takes: '"keep", "stop" or "destroy"',
        is: (value: unknown) => value === "keep" || value === "stop" || value === "destroy"
      }
    }
  }
} as const satisfies Record<string, OptionsInvalid.Shape>

/** Checks options. Throws `OptionsInvalid`. */
export const checkRemoteOptions = (
  of: keyof typeof shapes,
  options: { readonly rules?: PathGuard.Rules }
): void => {
  const problem = OptionsInvalid.problemOf(of, options, shapes[of])
  if (problem !== undefined) throw problem
  if (options.rules !== undefined) PathGuard.make(options.rules)
}
