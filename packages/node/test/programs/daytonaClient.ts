/**
 * A program that uses Daytona's own client on a server, and prints what it saw. Arguments: the path of the installed client, the address and
 * the key of the API, and the id and the working directory of a sandbox.
 */
import { createRequire } from "node:module"

/** The part of Daytona's client that is used here. */
interface Client {
  readonly create: () => Promise<RemoteSandbox>
  readonly get: (id: string) => Promise<RemoteSandbox>
}

interface RemoteSandbox {
  readonly id: string
  readonly getWorkDir: () => Promise<string>
  readonly delete: () => Promise<void>
  readonly process: {
    readonly executeCommand: (line: string) => Promise<{ readonly exitCode: number; readonly result: string }>
    readonly createSession: (id: string) => Promise<void>
    readonly executeSessionCommand: (
      id: string,
      request: { readonly command: string; readonly runAsync?: boolean }
    ) => Promise<{
      readonly cmdId: string
      readonly stdout: string
      readonly stderr: string
      readonly exitCode: number
    }>
    readonly getSession: (
      id: string
    ) => Promise<{ readonly commands: ReadonlyArray<{ readonly exitCode?: number }> }>
  }
  readonly fs: {
    readonly uploadFile: (content: Buffer, path: string) => Promise<void>
    readonly downloadFile: (path: string) => Promise<Buffer>
  }
}

const [path = "", apiUrl = "", apiKey = "", id = "", workdir = ""] = process.argv.slice(2)
const { Daytona } = createRequire(import.meta.url)(`${path}/cjs/index.js`) as {
  readonly Daytona: new (options: object) => Client
}
const client = new Daytona({ apiKey, apiUrl, target: "local" })
const sandbox = await client.get(id)
const { commands } = await sandbox.process.getSession("run_1:call_1")
const bytes = await sandbox.fs.downloadFile(`${workdir}/data.bin`)
await sandbox.fs.uploadFile(Buffer.from("theirs"), `${workdir}/theirs.txt`)
await sandbox.process.createSession("run_1:call_2")
const line = { command: "(echo one; echo two >&2; exit 4)" }
const { exitCode, stderr, stdout } = await sandbox.process.executeSessionCommand("run_1:call_2", line)
const executed = await sandbox.process.executeCommand("echo hi; exit 1")
const other = await client.create()
await other.delete()
console.log(
  JSON.stringify({
    workDir: await sandbox.getWorkDir(),
    exitCodes: commands.map((command) => command.exitCode),
    bytes: [...bytes],
    session: { stdout, stderr, exitCode },
    executed: { exitCode: executed.exitCode, result: executed.result }
  })
)
process.exit()
