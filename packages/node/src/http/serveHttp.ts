/**
 * Serves the runs of a Fermata over HTTP, for programs that do not use Effect.
 *
 * @since 0.2.0
 */
import { Display, type Fermata } from "@fermata/sdk"
import type { HttpOptions } from "./HttpOptions.ts"
import { promiseBackend } from "./internal/promiseBackend.ts"
import { settingsOf } from "./internal/settings.ts"
import { startServer } from "./internal/startServer.ts"

/** The options of `serveHttp`. */
export interface ServeHttpOptions extends HttpOptions {
  /** A control plane that front ends of this program use, too. Default: one of the server's own. Callers with a tenant have others. */
  readonly plane?: Fermata.RunControlPlane
  /** Called with a sentence for an error that a client learns only as a status. Default: writes a line to stderr. */
  readonly onProblem?: (problem: string) => void
}

/** A server. Close it before its Fermata. */
export interface HttpServing extends AsyncDisposable {
  /** Where the server answers, such as `http://127.0.0.1:41234`. */
  readonly url: string
  /** The port on which it listens. */
  readonly port: number
  /** The bearer token of the server's only caller. Absent if callers have tokens of their own. Show it to no one else. */
  readonly token: string | undefined
  /** Ends the event streams and the connections, and suspends the stored tasks of the server's control planes. Takes less than a second, and what the tasks need to suspend. */
  readonly close: () => Promise<void>
}

/**
 * Serves a Fermata over HTTP: commands, events, runs, sessions and the inbox. See the guide "HTTP".
 *
 * **Details**
 *
 * The server listens on 127.0.0.1 and takes requests that carry its token, which is another one for each start. It checks the host and the
 * origin of each request, so that no page of a browser can use it.
 *
 * **Example** (Approving a call over HTTP)
 *
 * ```ts run
 * import { agent, createFermata, tool } from "@fermata/node"
 * import { connectFermata, serveHttp } from "@fermata/node/http"
 * import { ScriptedModel } from "@fermata/node/testing"
 *
 * const pay = tool("pay", { handler: () => "paid" })
 * const { client: model } = ScriptedModel.make([{ calls: [{ tool: "pay" }] }, "It is paid."])
 * await using fermata = await createFermata({ agents: [agent("clerk", { tools: [pay] })], model, store: ":memory:" })
 * await using server = await serveHttp(fermata)
 *
 * await using client = await connectFermata(server)
 * await client.submit({ _tag: "SubmitPrompt", prompt: "Pay the invoice." })
 * for await (const { event } of client.events()) {
 *   if (event._tag === "tool.approvalRequired")
 *     await client.decide(event.request.requestId, { decision: { _tag: "approve" } })
 *   if (event._tag === "task.completed") {
 *     console.log(event.text) // It is paid.
 *     break
 *   }
 * }
 * ```
 *
 * **Errors**
 *
 * Rejects with `OptionsInvalid` for an option that is unknown, wrong or unsafe, and with the error of Node if the port is taken.
 *
 * @category constructors
 * @since 0.2.0
 */
export const serveHttp = async (
  fermata: Fermata.Fermata,
  options: ServeHttpOptions = {}
): Promise<HttpServing> => {
  const { onProblem = (problem) => process.stderr.write(`${problem}\n`), plane, ...rest } = options
  const settings = settingsOf("serveHttp", rest)
  const report = (error: unknown) =>
    onProblem(Display.sentence`The HTTP server could not answer a request: ${Display.messageOf(error)}.`)
  const { close, port, url } = await startServer(promiseBackend(fermata, plane), settings, report)
  return { url, port, token: settings.token, close, [Symbol.asyncDispose]: close }
}
