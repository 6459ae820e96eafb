/**
 * The part of Daytona's API that a sandbox needs, on Effect's HTTP client: the sandboxes of an account, and the toolbox of each, with its
 * files and its command sessions. As of version 0.218 of Daytona's own client.
 */
import * as Effect from "effect/Effect"
import * as FetchHttpClient from "effect/http/FetchHttpClient"
import * as HttpBody from "effect/http/HttpBody"
import * as HttpClient from "effect/http/HttpClient"
import * as HttpClientRequest from "effect/http/HttpClientRequest"
import type * as HttpClientResponse from "effect/http/HttpClientResponse"
import * as Redacted from "effect/Redacted"
import * as Schema from "effect/Schema"
import { type KeyHolders, toolboxAddress } from "./toolboxAddress.ts"

/** A sandbox of the account. An unknown state is treated as one that will change. */
export const SandboxInfo = Schema.Struct({
  id: Schema.NonEmptyString,
  state: Schema.optional(Schema.String),
  toolboxProxyUrl: Schema.String
})
export type SandboxInfo = typeof SandboxInfo.Type

const Command = Schema.Struct({
  id: Schema.NonEmptyString,
  exitCode: Schema.optional(Schema.NullOr(Schema.Finite))
})
export type Command = typeof Command.Type

const Session = Schema.Struct({ commands: Schema.NullOr(Schema.Array(Command)) })
const Started = Schema.Struct({ cmdId: Schema.NonEmptyString })
const Executed = Schema.Struct({
  exitCode: Schema.optional(Schema.Finite),
  result: Schema.NullOr(Schema.String)
})
const WorkDir = Schema.Struct({ dir: Schema.NonEmptyString })
const PreviewUrl = Schema.Struct({ url: Schema.NonEmptyString })
const JsonLogs = Schema.Struct({
  stdout: Schema.optional(Schema.NullOr(Schema.String)),
  stderr: Schema.optional(Schema.NullOr(Schema.String))
})

/** A request failed. */
export class DaytonaFailed extends Error {
  readonly _tag = "DaytonaFailed"
  /** The status of the response; `undefined` without one. */
  readonly status: number | undefined
  /** What went wrong, in a clause that ends without a full stop. It contains nothing that the server sent. */
  readonly problem: string
  /** Whether the same request may succeed later. */
  readonly retryable: boolean

  constructor(problem: string, retryable: boolean, status?: number) {
    super(problem)
    this.problem = problem
    this.retryable = retryable
    this.status = status
  }
}

type Called<A> = Effect.Effect<A, DaytonaFailed>

/** The properties of a new sandbox, in the names of the API. */
export interface NewSandbox {
  readonly name: string
  readonly target?: string
  readonly snapshot?: string
  readonly labels: Readonly<Record<string, string>>
  readonly env: Readonly<Record<string, string>>
  readonly autoStopInterval?: number
  readonly autoDeleteInterval?: number
  readonly ttlMinutes?: number
}

/** The output of a command until now. */
export interface Logs {
  readonly stdout: string
  readonly stderr: string
}

const requestSeconds = 60

/** The API of an account. */
export class DaytonaApi {
  private readonly base: string
  private readonly key: Redacted.Redacted<string>
  private readonly holders: KeyHolders

  constructor(options: {
    readonly apiUrl: string
    readonly apiKey: Redacted.Redacted<string>
    /** Hosts beside the API's that may be sent the key. */
    readonly toolboxHosts: ReadonlyArray<string>
  }) {
    this.base = options.apiUrl.replace(/\/+$/, "")
    this.key = options.apiKey
    this.holders = { apiUrl: options.apiUrl, hosts: options.toolboxHosts }
  }

  /** Finds a sandbox by its id or its name; `undefined` if there is none. */
  find(idOrName: string): Called<SandboxInfo | undefined> {
    return this.json(SandboxInfo, HttpClientRequest.get(this.sandbox(idOrName))).pipe(absent)
  }

  create(body: NewSandbox): Called<SandboxInfo> {
    return this.json(
      SandboxInfo,
      HttpClientRequest.post(`${this.base}/sandbox`).pipe(HttpClientRequest.bodyJsonUnsafe(body))
    )
  }

  start(id: string): Called<void> {
    return this.done(HttpClientRequest.post(`${this.sandbox(id)}/start`))
  }

  stop(id: string): Called<void> {
    return this.done(HttpClientRequest.post(`${this.sandbox(id)}/stop`))
  }

  remove(id: string): Called<void> {
    return this.done(HttpClientRequest.delete(this.sandbox(id))).pipe(absent, Effect.asVoid)
  }

  /** Postpones the automatic stop. */
  refreshActivity(id: string): Called<void> {
    return this.done(HttpClientRequest.post(`${this.sandbox(id)}/last-activity`))
  }

  previewUrl(id: string, port: number): Called<string> {
    return Effect.map(
      this.json(PreviewUrl, HttpClientRequest.get(`${this.sandbox(id)}/ports/${port}/preview-url`)),
      ({ url }) => url
    )
  }

  /** The toolbox of a sandbox, to which the key is sent. Fails if its address is not trusted with the key. */
  toolbox({ id, toolboxProxyUrl }: SandboxInfo): Called<DaytonaToolbox> {
    return Effect.suspend(() => {
      const address = toolboxAddress(toolboxProxyUrl, this.holders)
      return address._tag === "trusted"
        ? Effect.succeed(new DaytonaToolbox(this, `${address.base}/${encodeURIComponent(id)}`))
        : Effect.fail(new DaytonaFailed(address.problem, false))
    })
  }

  /** Sends a request, and decodes the JSON of its response. */
  json<A>(schema: Schema.ConstraintDecoder<A>, request: HttpClientRequest.HttpClientRequest): Called<A> {
    const decode = Schema.decodeUnknownEffect(schema)
    return this.send(request, (response) =>
      Effect.mapError(
        Effect.flatMap(response.json, decode),
        () => new DaytonaFailed("Daytona sent a response that this version does not know", false)
      )
    )
  }

  done(request: HttpClientRequest.HttpClientRequest): Called<void> {
    return this.send(request, (response) => Effect.ignore(response.text))
  }

  bytes(request: HttpClientRequest.HttpClientRequest): Called<Uint8Array> {
    return this.send(request, (response) =>
      Effect.map(Effect.mapError(response.arrayBuffer, unreachable), (buffer) => new Uint8Array(buffer))
    )
  }

  text(
    request: HttpClientRequest.HttpClientRequest
  ): Called<{ readonly text: Uint8Array; readonly isJson: boolean }> {
    return this.send(request, (response) =>
      Effect.map(Effect.mapError(response.arrayBuffer, unreachable), (buffer) => ({
        text: new Uint8Array(buffer),
        isJson: (response.headers["content-type"] ?? "").includes("json")
      }))
    )
  }

  private sandbox(idOrName: string): string {
    return `${this.base}/sandbox/${encodeURIComponent(idOrName)}`
  }

  private send<A>(
    request: HttpClientRequest.HttpClientRequest,
    read: (response: HttpClientResponse.HttpClientResponse) => Called<A>
  ): Called<A> {
    return Effect.gen({ self: this }, function* () {
      const client = yield* HttpClient.HttpClient
      const response = yield* Effect.mapError(
        client.execute(HttpClientRequest.bearerToken(request, Redacted.value(this.key))),
        unreachable
      )
      if (response.status < 200 || response.status > 299) {
        yield* Effect.ignore(response.text)
        return yield* Effect.fail(refused(response.status))
      }
      return yield* read(response)
    }).pipe(
      Effect.timeoutOrElse({
        duration: `${requestSeconds} seconds`,
        orElse: () => Effect.fail(new DaytonaFailed("Daytona did not answer in time", true))
      }),
      Effect.provide(FetchHttpClient.layer),
      // A redirect would take the key to another host.
      Effect.provideService(FetchHttpClient.RequestInit, { redirect: "error" })
    )
  }
}

/** The toolbox of one sandbox: its files and its commands. */
export class DaytonaToolbox {
  private readonly api: DaytonaApi
  private readonly base: string

  constructor(api: DaytonaApi, base: string) {
    this.api = api
    this.base = base
  }

  get workDir(): Called<string> {
    return Effect.map(
      this.api.json(WorkDir, HttpClientRequest.get(`${this.base}/work-dir`)),
      ({ dir }) => dir
    )
  }

  makeFolder(path: string): Called<void> {
    return this.api.done(
      HttpClientRequest.post(`${this.base}/files/folder`).pipe(
        HttpClientRequest.setUrlParams({ path, mode: "755" })
      )
    )
  }

  download(path: string): Called<Uint8Array> {
    return this.api.bytes(
      HttpClientRequest.get(`${this.base}/files/download`).pipe(HttpClientRequest.setUrlParams({ path }))
    )
  }

  upload(path: string, content: Uint8Array): Called<void> {
    const form = new FormData()
    form.append("files[0].path", path)
    form.append("files[0].file", new Blob([new Uint8Array(content)]), path)
    return this.api.done(
      HttpClientRequest.post(`${this.base}/files/bulk-upload`).pipe(
        HttpClientRequest.setBody(HttpBody.formData(form))
      )
    )
  }

  /** Runs a command to its end. Its two streams come as one. */
  execute(
    command: string,
    timeoutSeconds: number
  ): Called<{ readonly exitCode: number; readonly output: string }> {
    return Effect.map(
      this.api.json(
        Executed,
        HttpClientRequest.post(`${this.base}/process/execute`).pipe(
          HttpClientRequest.bodyJsonUnsafe({ command, timeout: timeoutSeconds })
        )
      ),
      ({ exitCode, result }) => ({ exitCode: exitCode ?? 0, output: result ?? "" })
    )
  }

  /** The commands of a session; `undefined` if there is none of this id. */
  commandsOf(session: string): Called<ReadonlyArray<Command> | undefined> {
    return this.api
      .json(Session, HttpClientRequest.get(`${this.base}/process/session/${encodeURIComponent(session)}`))
      .pipe(
        Effect.map(({ commands }) => commands ?? []),
        absent
      )
  }

  createSession(session: string): Called<void> {
    return this.api.done(
      HttpClientRequest.post(`${this.base}/process/session`).pipe(
        HttpClientRequest.bodyJsonUnsafe({ sessionId: session })
      )
    )
  }

  /** Starts a command in a session, and returns its id. */
  startCommand(session: string, command: string): Called<string> {
    return Effect.map(
      this.api.json(
        Started,
        HttpClientRequest.post(`${this.base}/process/session/${encodeURIComponent(session)}/exec`).pipe(
          HttpClientRequest.bodyJsonUnsafe({ command, runAsync: true })
        )
      ),
      ({ cmdId }) => cmdId
    )
  }

  command(session: string, id: string): Called<Command> {
    return this.api.json(Command, HttpClientRequest.get(this.commandPath(session, id)))
  }

  logs(session: string, id: string): Called<Logs> {
    return Effect.flatMap(
      this.api.text(
        HttpClientRequest.get(`${this.commandPath(session, id)}/logs`).pipe(
          HttpClientRequest.setHeader("accept", "application/json, text/plain")
        )
      ),
      ({ isJson, text }) =>
        isJson
          ? Effect.try({
              try: () => {
                const { stderr, stdout } = Schema.decodeUnknownSync(JsonLogs)(
                  JSON.parse(new TextDecoder().decode(text))
                )
                return { stdout: stdout ?? "", stderr: stderr ?? "" }
              },
              catch: () => new DaytonaFailed("Daytona sent a response that this version does not know", false)
            })
          : Effect.succeed(separated(text))
    )
  }

  deleteSession(session: string): Called<void> {
    return this.api
      .done(HttpClientRequest.delete(`${this.base}/process/session/${encodeURIComponent(session)}`))
      .pipe(absent, Effect.asVoid)
  }

  private commandPath(session: string, id: string): string {
    return `${this.base}/process/session/${encodeURIComponent(session)}/command/${encodeURIComponent(id)}`
  }
}

/** Output as older versions send it: three bytes of 1 before standard output, and three of 2 before standard error. */
const separated = (bytes: Uint8Array): Logs => {
  const pieces: Record<"stdout" | "stderr", Array<Uint8Array>> = { stdout: [], stderr: [] }
  let stream: "stdout" | "stderr" = "stdout"
  let from = 0
  for (let at = 0; at + 2 < bytes.length; at += 1) {
    const mark = bytes[at]
    if ((mark !== 1 && mark !== 2) || bytes[at + 1] !== mark || bytes[at + 2] !== mark) continue
    pieces[stream].push(bytes.subarray(from, at))
    stream = mark === 1 ? "stdout" : "stderr"
    from = at + 3
    at += 2
  }
  pieces[stream].push(bytes.subarray(from))
  return {
    stdout: Buffer.concat(pieces.stdout).toString(),
    stderr: Buffer.concat(pieces.stderr).toString()
  }
}

/** Returns `undefined` for the statuses 404 and 410. */
const absent = <A>(called: Called<A>): Called<A | undefined> =>
  Effect.catchIf(
    called,
    ({ status }) => status === 404 || status === 410,
    () => Effect.succeed(undefined)
  )

const unreachable = () => new DaytonaFailed("Daytona cannot be reached", true)

const refused = (status: number): DaytonaFailed => {
  if (status === 401 || status === 403)
    return new DaytonaFailed("Daytona refused the key: give one that may use sandboxes", false, status)
  if (status === 402) return new DaytonaFailed("the account of Daytona has no credit", false, status)
  if (status === 429) return new DaytonaFailed("Daytona allows no more requests for now", true, status)
  if (status === 408 || status >= 500)
    return new DaytonaFailed(`Daytona answered with an error of its own (${status})`, true, status)
  return new DaytonaFailed(`Daytona refused the request (${status})`, false, status)
}
