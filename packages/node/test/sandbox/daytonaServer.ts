/**
 * A server on 127.0.0.1 that speaks the part of Daytona's API that a sandbox uses, as Daytona's own client of version 0.218 does. Its sandboxes
 * are directories, and their commands are processes of this machine.
 */
import { type ChildProcess, spawn } from "node:child_process"
import { randomUUID } from "node:crypto"
import { mkdirSync, mkdtempSync, readFileSync, realpathSync, rmSync, writeFileSync } from "node:fs"
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http"
import { tmpdir } from "node:os"
import { dirname, join } from "node:path"
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"

interface Command {
  readonly id: string
  readonly command: string
  readonly stdout: Array<Buffer>
  readonly stderr: Array<Buffer>
  readonly child: ChildProcess
  readonly ended: Promise<void>
  exitCode: number | undefined
}

interface Box {
  readonly id: string
  readonly name: string
  readonly home: string
  readonly body: Readonly<Record<string, unknown>>
  state: string
  readonly sessions: Map<string, Array<Command>>
  readonly running: Set<ChildProcess>
  activity: number
}

interface Reply {
  readonly status?: number
  readonly json?: unknown
  readonly bytes?: Uint8Array
  readonly type?: string
}

/** The key that the server takes. */
export const apiKey = "dtn_test_key"

/** A server that runs. */
export class DaytonaServer {
  /** What was requested: the method and the path, without ids of sandboxes. */
  readonly requests: Array<string> = []
  readonly boxes = new Map<string, Box>()
  /** Whether logs are sent as older versions do, as one text with marks. */
  hasOldLogs = false
  /** Answers a request instead of the server, by its method and path. */
  intercept: ((request: string) => Reply | "drop" | undefined) | undefined
  /** Where the API says that the toolbox of a sandbox is, instead of on this server. */
  toolboxUrl: string | undefined
  /** A request whose answer is lost, once: it is carried out. */
  loseNextAnswer: string | undefined
  private readonly server: Server
  private readonly top = realpathSync(mkdtempSync(join(tmpdir(), "fermata-daytona-")))

  constructor() {
    this.server = createServer((request, response) => {
      this.handle(request, response).catch((cause: unknown) => {
        response.statusCode = 500
        response.end(String(cause))
      })
    })
  }

  listen(): Promise<void> {
    return new Promise((resolve) => this.server.listen(0, "127.0.0.1", resolve))
  }

  close(): void {
    for (const box of this.boxes.values()) this.halt(box)
    this.server.closeAllConnections()
    this.server.close()
    rmSync(this.top, { recursive: true, force: true })
  }

  get origin(): string {
    const address = this.server.address()
    return `http://127.0.0.1:${typeof address === "object" && address !== null ? address.port : 0}`
  }

  get apiUrl(): string {
    return `${this.origin}/api`
  }

  /** Stops a sandbox as Daytona does after a time without activity: its processes end, and its sessions are forgotten. */
  halt(box: Box): void {
    for (const child of box.running) {
      try {
        process.kill(-child.pid!, "SIGKILL")
      } catch {
        // It has ended.
      }
    }
    box.running.clear()
    box.sessions.clear()
    box.state = "stopped"
  }

  private async handle(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const url = new URL(request.url ?? "/", this.origin)
    const path = decodeURIComponent(url.pathname)
    const shown = [...this.boxes.values()].reduce(
      (text, { id, name }) => text.replace(id, "ID").replace(name, "NAME"),
      `${request.method} ${path.replace(/^\/(api|toolbox)/, "")}`
    )
    this.requests.push(shown)
    const chunks: Array<Buffer> = []
    for await (const chunk of request) chunks.push(chunk as Buffer)
    const body = Buffer.concat(chunks)
    const intercepted = this.intercept?.(shown)
    if (intercepted === "drop") return void request.socket.destroy()
    const reply =
      intercepted ??
      (request.headers.authorization === `Bearer ${apiKey}`
        ? await this.answer(request, url, body)
        : { status: 401, json: { message: "Unauthorized", statusCode: 401 } })
    if (this.loseNextAnswer === shown) {
      this.loseNextAnswer = undefined
      return void request.socket.destroy()
    }
    response.statusCode = reply.status ?? 200
    const isText = reply.bytes !== undefined
    response.setHeader(
      "content-type",
      isText ? (reply.type ?? "application/octet-stream") : "application/json"
    )
    response.end(isText ? reply.bytes : reply.json === undefined ? "" : JSON.stringify(reply.json))
  }

  private async answer(request: IncomingMessage, url: URL, body: Buffer): Promise<Reply> {
    const parts = url.pathname
      .split("/")
      .filter((part) => part !== "")
      .map(decodeURIComponent)
    const [area, ...rest] = parts
    const method = request.method ?? "GET"
    if (area === "api" && rest[0] === "sandbox") return this.answerApi(method, rest.slice(1), body)
    if (area === "toolbox" && rest[0] !== undefined) {
      const box = this.boxes.get(rest[0])
      if (box === undefined) return notFound
      if (box.state !== "started") return { status: 400, json: { message: "The sandbox is not running" } }
      box.activity += 1
      return this.answerToolbox(box, `${method} /${rest.slice(1).join("/")}`, url, {
        body,
        type: request.headers["content-type"] ?? ""
      })
    }
    return notFound
  }

  private answerApi(method: string, [key, action, ...more]: ReadonlyArray<string>, body: Buffer): Reply {
    if (key === undefined) {
      const given = JSON.parse(body.toString()) as Readonly<Record<string, unknown>>
      const name = String(given["name"] ?? randomUUID())
      if ([...this.boxes.values()].some((box) => box.name === name))
        return { status: 409, json: { message: "Conflict" } }
      const id = randomUUID()
      const home = join(this.top, id)
      mkdirSync(join(home, "project"), { recursive: true })
      const box: Box = {
        id,
        name,
        home,
        body: given,
        state: "started",
        sessions: new Map(),
        running: new Set(),
        activity: 0
      }
      this.boxes.set(id, box)
      return { json: this.dto(box) }
    }
    const box = [...this.boxes.values()].find(({ id, name }) => id === key || name === key)
    if (box === undefined) return notFound
    switch (`${method} ${action ?? ""}`) {
      case "GET ":
        return { json: this.dto(box) }
      case "DELETE ":
        this.halt(box)
        this.boxes.delete(box.id)
        rmSync(box.home, { recursive: true, force: true })
        return { json: this.dto({ ...box, state: "destroyed" }) }
      case "POST start":
        if (box.state === "started") return { status: 400, json: { message: "It runs" } }
        box.state = "started"
        return { json: this.dto(box) }
      case "POST stop":
        this.halt(box)
        return { json: this.dto(box) }
      case "POST last-activity":
        box.activity += 1
        return { status: 201 }
      case "GET ports":
        return { json: { sandboxId: box.id, url: `https://${more[0]}-${box.id}.example.test`, token: "t" } }
      default:
        return notFound
    }
  }

  private dto({ body, home, id, name, state }: Box) {
    return {
      id,
      name,
      organizationId: "org",
      user: "daytona",
      env: {},
      labels: body["labels"] ?? {},
      public: false,
      networkBlockAll: false,
      target: body["target"] ?? "local",
      cpu: 1,
      gpu: 0,
      memory: 1,
      disk: 1,
      state,
      desiredState: state,
      toolboxProxyUrl: this.toolboxUrl ?? `${this.origin}/toolbox`,
      home
    }
  }

  private async answerToolbox(
    box: Box,
    route: string,
    url: URL,
    { body, type }: { readonly body: Buffer; readonly type: string }
  ): Promise<Reply> {
    const json = (): Readonly<Record<string, unknown>> => JSON.parse(body.toString())
    const path = url.searchParams.get("path") ?? ""
    switch (route) {
      case "GET /work-dir":
        return { json: { dir: join(box.home, "project") } }
      case "POST /files/folder":
        mkdirSync(path, { recursive: true })
        return { status: 201 }
      case "GET /files/download":
        try {
          return { bytes: readFileSync(path) }
        } catch {
          return notFound
        }
      case "POST /files/bulk-upload": {
        const form = await new Response(new Uint8Array(body), {
          headers: { "content-type": type }
        }).formData()
        const file = form.get("files[0].file") as File
        const target = String(form.get("files[0].path"))
        mkdirSync(dirname(target), { recursive: true })
        writeFileSync(target, new Uint8Array(await file.arrayBuffer()))
        return {}
      }
      case "POST /files/bulk-download": {
        const [target = ""] = json()["paths"] as ReadonlyArray<string>
        const boundary = randomUUID()
        const head = `--${boundary}\r\nContent-Disposition: form-data; name="file"; filename="${target}"\r\nContent-Type: application/octet-stream\r\n\r\n`
        return {
          type: `multipart/form-data; boundary=${boundary}`,
          bytes: Buffer.concat([
            Buffer.from(head),
            readFileSync(target),
            Buffer.from(`\r\n--${boundary}--\r\n`)
          ])
        }
      }
      case "POST /process/execute":
        return { json: await this.execute(box, String(json()["command"])) }
      case "POST /process/session": {
        const id = String(json()["sessionId"])
        if (box.sessions.has(id)) return { status: 409, json: { message: "Conflict" } }
        box.sessions.set(id, [])
        return { status: 201 }
      }
    }
    const [, , , session = "", action, commandId = "", last] = `/${route.split(" /")[1]}`.split("/")
    const commands = box.sessions.get(session)
    if (commands === undefined) return notFound
    if (route.startsWith("GET") && action === undefined)
      return { json: { sessionId: session, commands: commands.map(shown) } }
    if (route.startsWith("DELETE")) {
      box.sessions.delete(session)
      return { status: 204 }
    }
    if (action === "exec") {
      const { command, runAsync } = json() as { readonly command: string; readonly runAsync?: boolean }
      const made = this.start(box, command)
      commands.push(made)
      if (runAsync === true) return { status: 202, json: { cmdId: made.id } }
      await made.ended
      const [stdout, stderr] = [text(made.stdout), text(made.stderr)]
      return { json: { cmdId: made.id, exitCode: made.exitCode, stdout, stderr, output: stdout + stderr } }
    }
    const command = commands.find(({ id }) => id === commandId)
    if (command === undefined) return notFound
    if (last !== "logs") return { json: shown(command) }
    if (this.hasOldLogs)
      return {
        type: "text/plain",
        bytes: Buffer.concat([
          Buffer.from([1, 1, 1]),
          ...command.stdout,
          Buffer.from([2, 2, 2]),
          ...command.stderr
        ])
      }
    const [stdout, stderr] = [text(command.stdout), text(command.stderr)]
    return { json: { stdout, stderr, output: stdout + stderr } }
  }

  private start(box: Box, command: string): Command {
    const child = spawn("sh", ["-c", command], this.place(box))
    const { promise: ended, resolve } = Promise.withResolvers<void>()
    const made: Command = {
      id: randomUUID(),
      command,
      stdout: [],
      stderr: [],
      child,
      ended,
      exitCode: undefined
    }
    child.stdout.on("data", (bytes: Buffer) => void made.stdout.push(bytes))
    child.stderr.on("data", (bytes: Buffer) => void made.stderr.push(bytes))
    child.once("exit", (code) => {
      // What is in the pipes is read first.
      setImmediate(() => {
        made.exitCode = code ?? 137
        box.running.delete(child)
        resolve()
      })
    })
    box.running.add(child)
    return made
  }

  private execute(
    box: Box,
    command: string
  ): Promise<{ readonly exitCode: number; readonly result: string }> {
    const child = spawn("sh", ["-c", `exec 2>&1\n${command}`], this.place(box))
    const output: Array<Buffer> = []
    child.stdout.on("data", (bytes: Buffer) => void output.push(bytes))
    return new Promise((resolve) => {
      child.once("close", (code) => resolve({ exitCode: code ?? 137, result: text(output) }))
    })
  }

  private place({ home }: Box) {
    return {
      cwd: home,
      detached: true,
      stdio: ["ignore", "pipe", "pipe"] as ["ignore", "pipe", "pipe"],
      env: { PATH: process.env["PATH"], HOME: home }
    }
  }
}

const text = (bytes: ReadonlyArray<Buffer>): string => Buffer.concat(bytes).toString()

const shown = ({ command, exitCode, id }: Command) => ({
  id,
  command,
  ...(exitCode === undefined ? {} : { exitCode })
})

const notFound: Reply = { status: 404, json: { message: "Not found", statusCode: 404 } }

/** A server that ends with the test. */
export const daytonaServer: Effect.Effect<DaytonaServer, never, Scope.Scope> = Effect.acquireRelease(
  Effect.promise(async () => {
    const server = new DaytonaServer()
    await server.listen()
    return server
  }),
  (server) => Effect.sync(() => server.close())
)
