/**
 * A model's server for tests: it answers over a real socket with recorded or written responses, with the chunking, the delays and the
 * faults that a test gives, and records the requests and the end of each connection.
 *
 * @since 0.1.0
 */
import { readFile } from "node:fs/promises"
import { createServer, type IncomingMessage, type ServerResponse } from "node:http"
import type { AddressInfo } from "node:net"
import { join } from "node:path"
import { setTimeout as wait } from "node:timers/promises"
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import { chunksOf, type Chunking } from "./chunks.ts"

export type { Chunking } from "./chunks.ts"

/** One response. */
export interface Response {
  /** The status. Default: 200. */
  readonly status?: number
  /** The headers. Default: only those that Node adds. */
  readonly headers?: Readonly<Record<string, string>>
  /** The complete body. Texts are sent as UTF-8. */
  readonly body: string | Uint8Array
  /** How the body is split into writes. Default: `events`. */
  readonly chunking?: Chunking
  /** Milliseconds before the head, between the head and the body, and between two writes of the body. Default: none. */
  readonly delay?: { readonly head?: number; readonly body?: number; readonly chunk?: number }
  /** How the response fails. Default: it does not. */
  readonly fault?: Fault
}

/** How a response fails, after the first bytes of its body. */
export interface Fault {
  /** The number of bytes of the body that are sent before. */
  readonly after: number
  /**
   * `end`: the body ends properly, but too early. `cut`: the connection is closed within the body. `reset`: the connection is reset.
   * `stall`: no more is sent, and the connection stays open.
   */
  readonly kind: "end" | "cut" | "reset" | "stall"
}

/** A request as it arrived. */
export interface Request {
  readonly method: string
  /** The path with the query. */
  readonly path: string
  /** The headers, by their names in lower case. */
  readonly headers: Readonly<Record<string, string>>
  /** The body as text. It grows until the request has arrived completely. */
  readonly body: string
  /**
   * Resolves when the exchange has ended: `at` is the time by `performance.now()`. `early` is true if the connection was closed before the
   * complete response was sent: the client left, the server stopped, or the response had a `cut` or `reset`.
   */
  readonly closed: Promise<{ readonly at: number; readonly early: boolean }>
}

/**
 * The responses in order, or a function that answers each request: `index` is 0 for the first one. A request beyond the last response gets
 * the status 599. If the function throws or rejects, the connection is closed without a response.
 */
export type Responses =
  | ReadonlyArray<Response>
  | ((request: Request, index: number) => Response | Promise<Response>)

/** A running server. */
export interface ReplayServer {
  /** The base URL, such as `http://127.0.0.1:41234`, without a slash at the end. */
  readonly url: string
  /** The requests so far, oldest first. The list grows. */
  readonly requests: ReadonlyArray<Request>
  /** Number of open connections. */
  readonly connections: () => number
}

/**
 * Starts a server on a free port of this machine. It stops, with all its connections, when the scope closes.
 *
 * @category constructors
 * @since 0.1.0
 */
export const make = (responses: Responses): Effect.Effect<ReplayServer, never, Scope.Scope> =>
  Effect.acquireRelease(
    Effect.promise(() => start(responses)),
    (server) => Effect.promise(() => server[Symbol.asyncDispose]())
  )

/**
 * Reads the response in a folder with a recording, to play it with {@link make}. In the folder, `meta.json` has the name of the body's file
 * (`file`), and its status and headers (`http`). Headers in `options` win over the recorded ones. Rejects if a file cannot be read.
 *
 * @category constructors
 * @since 0.1.0
 */
export const recorded = async (
  folder: string,
  options: Omit<Response, "body" | "status"> = {}
): Promise<Response> => {
  const meta: Meta = JSON.parse(await readFile(join(folder, "meta.json"), "utf8"))
  const type = contentTypes[meta.file.slice(meta.file.lastIndexOf("."))]
  return {
    ...options,
    status: meta.http.status,
    headers: {
      ...(type === undefined ? {} : { "content-type": type }),
      ...withoutFraming(meta.http.headers ?? {}),
      ...options.headers
    },
    body: await readFile(join(folder, meta.file))
  }
}

interface Meta {
  readonly file: string
  readonly http: { readonly status: number; readonly headers?: Readonly<Record<string, string>> }
}

const contentTypes: Readonly<Record<string, string>> = {
  ".sse": "text/event-stream",
  ".json": "application/json",
  ".txt": "text/plain"
}

/** Leaves out the headers of the recorded transfer, which do not apply to the replayed one. */
const withoutFraming = (headers: Readonly<Record<string, string>>) =>
  Object.fromEntries(
    Object.entries(headers).filter(
      ([name]) => !/^(content-length|content-encoding|transfer-encoding|connection|date)$/i.test(name)
    )
  )

/**
 * Like {@link make}, for programs without Effect: `await using server = await ReplayServer.start([...])`.
 *
 * @category constructors
 * @since 0.1.0
 */
export const start = async (responses: Responses): Promise<ReplayServer & AsyncDisposable> => {
  const requests: Array<Request> = []
  let open = 0
  const server = createServer((incoming, outgoing) => {
    void answer(incoming, outgoing).catch(() => outgoing.destroy())
  })
  const answer = async (incoming: IncomingMessage, outgoing: ServerResponse) => {
    const closed = new Promise<{ readonly at: number; readonly early: boolean }>((resolve) => {
      outgoing.once("close", () => resolve({ at: performance.now(), early: !outgoing.writableFinished }))
    })
    const index = requests.length
    const request = {
      method: incoming.method ?? "",
      path: incoming.url ?? "",
      headers: incoming.headers as Readonly<Record<string, string>>,
      body: "",
      closed
    }
    requests.push(request)
    for await (const piece of incoming.setEncoding("utf8")) request.body += piece
    await write(outgoing, await choose(responses, request, index))
  }
  server.on("connection", (socket) => {
    open += 1
    socket.setNoDelay(true)
    socket.once("close", () => (open -= 1))
  })
  await new Promise<void>((resolve, reject) => {
    server.once("error", reject)
    server.listen(0, "127.0.0.1", resolve)
  })
  const { port } = server.address() as AddressInfo
  return {
    url: `http://127.0.0.1:${port}`,
    requests,
    connections: () => open,
    [Symbol.asyncDispose]: () =>
      new Promise<void>((resolve) => {
        server.close(() => resolve())
        server.closeAllConnections()
      })
  }
}

const choose = async (responses: Responses, request: Request, index: number): Promise<Response> => {
  if (typeof responses === "function") return responses(request, index)
  return (
    responses[index] ?? {
      status: 599,
      body: JSON.stringify({
        error: { message: `This request comes after the last of ${responses.length} responses.` }
      }),
      headers: { "content-type": "application/json", "x-should-retry": "false" }
    }
  )
}

const write = async (outgoing: ServerResponse, response: Response) => {
  const { delay = {}, fault } = response
  const body = typeof response.body === "string" ? new TextEncoder().encode(response.body) : response.body
  if (delay.head !== undefined) await wait(delay.head)
  if (outgoing.destroyed) return
  outgoing.writeHead(response.status ?? 200, { ...response.headers })
  outgoing.flushHeaders()
  if (delay.body !== undefined) await wait(delay.body)
  let first = true
  for (const chunk of chunksOf(
    fault === undefined ? body : body.subarray(0, fault.after),
    response.chunking
  )) {
    if (!first && delay.chunk !== undefined) await wait(delay.chunk)
    first = false
    if (outgoing.destroyed) return
    // Each piece is sent before the next one is written; otherwise they would arrive as one.
    await new Promise<void>((resolve) => outgoing.write(chunk, () => resolve()))
  }
  if (outgoing.destroyed) return
  switch (fault?.kind) {
    case "stall":
      return
    case "cut":
      outgoing.socket?.destroy()
      return
    case "reset":
      outgoing.socket?.resetAndDestroy()
      return
    default:
      outgoing.end()
  }
}
