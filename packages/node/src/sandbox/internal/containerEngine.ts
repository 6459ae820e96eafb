/**
 * A container that the client of Docker or Podman reaches, and the scripts that run in it.
 *
 * A script runs by `exec`. When the client ends, also by `kill -9`, what it has started in the container goes on; the scripts of sessions find
 * it there and stop it.
 */
import * as Effect from "effect/Effect"
import type { ContainerSandboxOptions } from "./containerOptions.ts"
import { environment } from "./environment.ts"
import {
  collectProgram,
  HostFailed,
  type Program,
  type ProgramEnd,
  runProgram,
  type ShellHost
} from "./shellHost.ts"

/** Variables with which the client finds its engine. */
const clientVariables = [
  "DOCKER_HOST",
  "DOCKER_CONTEXT",
  "DOCKER_CONFIG",
  "DOCKER_CERT_PATH",
  "DOCKER_TLS",
  "DOCKER_TLS_VERIFY",
  "CONTAINER_HOST",
  "CONTAINER_CONNECTION",
  "CONTAINER_SSHKEY",
  "XDG_RUNTIME_DIR"
]

/** The state of a container. */
export type ContainerState = "running" | "stopped" | "missing"

/** The label of the containers of sandboxes. Its value is the id of the run. */
const label = "fermata.run"

/** The client of an engine. */
export class ContainerEngine {
  private readonly options: ContainerSandboxOptions
  private readonly program: string
  private readonly env: Readonly<Record<string, string>>

  constructor(options: ContainerSandboxOptions) {
    this.options = options
    this.program = options.program ?? "docker"
    this.env = environment({ inheritEnv: clientVariables })
  }

  stateOf(name: string): Effect.Effect<ContainerState, HostFailed> {
    return Effect.flatMap(
      this.client("container", "inspect", "--format", "{{.State.Running}}", name),
      ({ exitCode, stderr, stdout }) => {
        const text = stdout.toString().trim()
        if (exitCode === 0) return Effect.succeed(text === "true" ? "running" : "stopped")
        return /no such|not found|does not exist/i.test(stderr)
          ? Effect.succeed("missing")
          : Effect.fail(failureOf(stderr))
      }
    )
  }

  /** Makes a container that stays until it is removed. */
  make(name: string, runId: string, workdir: string): Effect.Effect<void, HostFailed> {
    const {
      image = "",
      mount,
      network = false,
      runArgs = [],
      user = mount === undefined ? undefined : owner()
    } = this.options
    const optional = [
      ...(network ? [] : ["--network", "none"]),
      ...(user === undefined ? [] : ["--user", user]),
      ...(mount === undefined ? [] : ["--mount", `type=bind,source=${mount},target=${workdir}`])
    ]
    return this.demand(
      "run",
      "--detach",
      // Looks after processes that have lost their parents.
      "--init",
      "--name",
      name,
      "--label",
      `${label}=${runId}`,
      "--security-opt",
      "no-new-privileges",
      ...optional,
      "--workdir",
      workdir,
      ...runArgs,
      "--entrypoint",
      "sleep",
      image,
      "infinity"
    )
  }

  start(name: string): Effect.Effect<void, HostFailed> {
    return this.demand("start", name)
  }

  /** Removes a container with its processes and its own files. */
  remove(name: string): Effect.Effect<void, HostFailed> {
    return this.demand("rm", "--force", "--volumes", name)
  }

  /** The scripts of a container. */
  host(name: string): ShellHost {
    const program = (script: string, args: ReadonlyArray<string> = [], hasInput: boolean): Program => ({
      program: this.program,
      env: this.env,
      args: [
        "exec",
        ...(hasInput ? ["--interactive"] : []),
        ...(this.options.user === undefined ? [] : ["--user", this.options.user]),
        name,
        "sh",
        "-c",
        script,
        "sh",
        ...args
      ]
    })
    return {
      run: (script, { args, input } = {}) =>
        Effect.flatMap(collectProgram(program(script, args, input !== undefined), input), (end) =>
          Effect.map(codeOf(end), (exitCode) => ({ exitCode, stdout: end.stdout }))
        ),
      follow: (script, { args, input, onOutput }) =>
        Effect.flatMap(runProgram(program(script, args, input !== undefined), { input, onOutput }), codeOf)
    }
  }

  private client(...args: ReadonlyArray<string>) {
    return collectProgram({ program: this.program, args, env: this.env })
  }

  private demand(...args: ReadonlyArray<string>): Effect.Effect<void, HostFailed> {
    return Effect.flatMap(this.client(...args), ({ exitCode, stderr }) =>
      exitCode === 0 ? Effect.void : Effect.fail(failureOf(stderr))
    )
  }
}

/** The user of this process, who can then change what commands have written in a mounted directory. */
const owner = (): string | undefined =>
  process.getuid === undefined || process.getgid === undefined
    ? undefined
    : `${process.getuid()}:${process.getgid()}`

/** The exit code of a script, unless it is that of the client. */
const codeOf = ({ exitCode, stderr }: ProgramEnd): Effect.Effect<number, HostFailed> => {
  if (exitCode === undefined)
    return Effect.fail(new HostFailed("the client of the container was ended", false))
  const isOfClient = exitCode !== 0 && /^(error\b.*|.*no such container|.*oci runtime)/im.test(stderr)
  return isOfClient ? Effect.fail(failureOf(stderr)) : Effect.succeed(exitCode)
}

/** What the clients say about failures. Their text is not passed on: it can name files and addresses of this machine. */
const failures: ReadonlyArray<readonly [RegExp, string, boolean]> = [
  [/is not running|no such container|no container with name/i, "its container is not running", true],
  [
    /cannot connect|is the docker daemon running|connection refused|dial unix/i,
    "its engine does not answer: start it",
    true
  ],
  [/permission denied.*sock/i, "this user may not use its engine", false],
  [
    /no such image|pull access denied|manifest unknown|unable to find image/i,
    "its image does not exist: build it, or name another one",
    false
  ],
  [/executable file.*not found|no such file/i, "its image has no POSIX shell: use one that has", false],
  [/already in use/i, "another container has its name", true]
]

const failureOf = (stderr: string): HostFailed => {
  const known = failures.find(([pattern]) => pattern.test(stderr))
  return known === undefined
    ? new HostFailed("its engine refused it", false)
    : new HostFailed(known[1], true, known[2])
}
