/**
 * An ssh server on 127.0.0.1 for tests, with its own keys and its own configuration.
 */
import { execFileSync, spawn } from "node:child_process"
import { existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { createServer } from "node:net"
import { tmpdir, userInfo } from "node:os"
import { join } from "node:path"
import type { SshSandboxOptions } from "@fermata/node"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Scope from "effect/Scope"
import { afterAll } from "vitest"

const program = ["/usr/sbin/sshd", "/usr/local/sbin/sshd", "/usr/bin/sshd"].find((path) => existsSync(path))

/** Comes with the client. */
const keyProgram = "ssh-keygen"

const hasClient = () => {
  try {
    execFileSync("ssh", ["-V"], { stdio: "ignore" })
    return true
  } catch {
    return false
  }
}

/** Why there is no server here; `undefined` if there can be one. */
export const noSshServer: string | undefined =
  program === undefined || !hasClient() ? "the programs ssh and sshd are not installed" : undefined

/** A server that runs, and options that connect to it. */
export interface SshServer {
  readonly options: SshSandboxOptions
  readonly directory: string
  /** Ends the server. */
  readonly stop: Effect.Effect<void>
  /** Ends every connection, as a network that fails does. The commands go on. */
  readonly cut: Effect.Effect<void>
}

/** One server for the tests of a file that do not end its connections. It is started when it is needed, and ends after the tests. */
export const sharedSshServer = (): Effect.Effect<SshServer> => {
  const scope = Scope.makeUnsafe()
  let server: Promise<SshServer> | undefined
  afterAll(() => Effect.runPromise(Scope.close(scope, Exit.void)))
  return Effect.promise(
    () => (server ??= Effect.runPromise(Effect.provideService(sshServer, Scope.Scope, scope)))
  )
}

/** Starts a server. It ends with the scope. */
export const sshServer: Effect.Effect<SshServer, never, Scope.Scope> = Effect.acquireRelease(
  Effect.promise(async () => {
    const directory = mkdtempSync(join(tmpdir(), "fermata-sshd-"))
    const key = (name: string) => {
      const path = join(directory, name)
      execFileSync(keyProgram, ["-q", "-t", "ed25519", "-N", "", "-C", "", "-f", path])
      return path
    }
    const [hostKey, userKey] = [key("host_key"), key("user_key")]
    execFileSync("cp", [`${userKey}.pub`, join(directory, "authorized_keys")])
    const port = await freePort()
    const config = join(directory, "sshd_config")
    writeFileSync(
      config,
      [
        `Port ${port}`,
        "ListenAddress 127.0.0.1",
        `HostKey ${hostKey}`,
        `AuthorizedKeysFile ${join(directory, "authorized_keys")}`,
        `PidFile ${join(directory, "pid")}`,
        "StrictModes no",
        "UsePAM no",
        "PasswordAuthentication no",
        "KbdInteractiveAuthentication no",
        "PermitRootLogin yes",
        // What Fermata stores on the host is removed with the test. A shell that starts in another home directory reads none of the user's files,
        // which can take longer than all else.
        `SetEnv XDG_STATE_HOME=${join(directory, "state")} HOME=${directory}`,
        ""
      ].join("\n")
    )
    const publicKey = execFileSync("cat", [`${hostKey}.pub`]).toString()
    const knownHosts = join(directory, "known_hosts")
    writeFileSync(knownHosts, `[127.0.0.1]:${port} ${publicKey}`)
    // The place where sshd separates its privileges.
    if (userInfo().uid === 0) mkdirSync("/run/sshd", { recursive: true })
    const server = await listen(config)
    return {
      directory,
      close: () => {
        server.kill("SIGTERM")
        rmSync(directory, { recursive: true, force: true })
      },
      stop: Effect.promise(async () => {
        const ended = new Promise((resolve) => server.once("close", resolve))
        server.kill("SIGTERM")
        await ended
      }),
      cut: Effect.sync(() => {
        for (const pid of childrenOf(server.pid!))
          for (const each of [pid, ...childrenOf(pid)]) endConnection(each)
      }),
      options: {
        host: "127.0.0.1",
        port,
        user: userInfo().username,
        identityFile: userKey,
        configFile: "none",
        sshOptions: [`UserKnownHostsFile=${knownHosts}`, "GlobalKnownHostsFile=none"]
      }
    }
  }),
  ({ close }) => Effect.sync(close)
)

const childrenOf = (pid: number): ReadonlyArray<number> =>
  execFileSync("ps", ["-A", "-o", "pid=,ppid="])
    .toString()
    .split("\n")
    .map((line) => line.trim().split(/\s+/).map(Number))
    .flatMap(([child = 0, parent]) => (parent === pid ? [child] : []))

/** Kills a process of the server itself, and none that a connection started. */
const endConnection = (pid: number): void => {
  const name = execFileSync("ps", ["-o", "comm=", "-p", String(pid)]).toString()
  if (name.startsWith("sshd")) process.kill(pid, "SIGKILL")
}

const listen = (config: string): Promise<ReturnType<typeof spawn>> =>
  new Promise((resolve, reject) => {
    const server = spawn(program!, ["-D", "-e", "-f", config], {
      stdio: ["ignore", "ignore", "pipe"],
      detached: true
    })
    server.stderr?.on("data", (bytes: Buffer) => {
      if (bytes.toString().includes("Server listening")) resolve(server)
    })
    server.once("close", () => reject(new Error("sshd did not start")))
  })

const freePort = (): Promise<number> =>
  new Promise((resolve) => {
    const server = createServer()
    server.listen(0, "127.0.0.1", () => {
      const address = server.address()
      server.close(() => resolve(typeof address === "object" && address !== null ? address.port : 0))
    })
  })
