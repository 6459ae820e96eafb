/**
 * Servers for the tests of the HTTP interface: a Fermata with a clerk who pays, and raw requests on sockets.
 */
import { once } from "node:events"
import { connect } from "node:net"
import { agent, createFermata, type CreateFermataOptions, type Fermata, tool } from "@fermata/node"
import { type HttpServing, serveHttp, type ServeHttpOptions } from "@fermata/node/http"
import { ScriptedModel } from "@fermata/node/testing"
import type * as Duration from "effect/Duration"
import * as z from "zod"

type Answers = Parameters<typeof ScriptedModel.make>[0]

/** The answers of a model that pays and reports, for each prompt. */
const paying: Answers = ({ turn }) =>
  turn % 2 === 1 ? { calls: [{ tool: "pay", arguments: { amount: 20 } }] } : "It is paid."

/** A Fermata whose clerk pays after an approval; `paid` are the amounts. */
export const clerk = async (
  options: Partial<CreateFermataOptions> & { readonly answers?: Answers; readonly expiresIn?: string } = {}
) => {
  const { answers = paying, expiresIn, ...rest } = options
  const paid: Array<number> = []
  const pay = tool("pay", {
    parameters: z.object({ amount: z.number() }),
    ...(expiresIn === undefined ? {} : { approval: { expiresIn: expiresIn as Duration.Input } }),
    handler: ({ amount }) => {
      paid.push(amount)
      return "paid"
    }
  })
  const fermata = await createFermata({
    agents: [agent("clerk", { tools: [pay] })],
    model: ScriptedModel.make(answers).client,
    store: ":memory:",
    ...rest
  })
  return { fermata, paid }
}

/** A served clerk. */
export const served = async (
  options: ServeHttpOptions = {},
  ofClerk: Parameters<typeof clerk>[0] = {}
): Promise<
  AsyncDisposable & {
    readonly fermata: Fermata.Fermata
    readonly paid: ReadonlyArray<number>
    readonly server: HttpServing
    readonly port: number
  }
> => {
  const { fermata, paid } = await clerk(ofClerk)
  const server = await serveHttp(fermata, options)
  return {
    fermata,
    paid,
    server,
    port: server.port,
    [Symbol.asyncDispose]: async () => {
      await server.close()
      await fermata.close()
    }
  }
}

/** Sends text on a socket, and returns what the server answers until it closes the connection. */
export const raw = async (port: number, text: string): Promise<string> => {
  const socket = connect(port, "127.0.0.1")
  socket.setEncoding("utf8")
  let answer = ""
  socket.on("data", (chunk: string) => (answer += chunk))
  // The server may reset a connection whose rest it does not read.
  socket.on("error", () => {})
  await once(socket, "connect")
  socket.write(text)
  await once(socket, "close")
  return answer
}

/** The status of a raw answer. */
export const statusOf = (answer: string): number => Number(/^HTTP\/1\.1 (\d+)/.exec(answer)?.[1])
