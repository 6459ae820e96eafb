/**
 * Opens the connections of guarded requests: resolves a name once, checks all answers, and connects to exactly these addresses.
 *
 * It decides about every connection itself, also about one to an address literal, for which no `lookup` is called.
 */
import { connect as connectTcp, type LookupFunction, isIP, type Socket } from "node:net"
import { connect as connectTls } from "node:tls"
import type { buildConnector } from "undici"
import { refusal, type Target, type WebGuard } from "../WebGuard.ts"

/** Resolves a name to its addresses; none if it has none. */
export type Resolve = (host: string) => Promise<ReadonlyArray<string>>

/** Opens a socket to one of the addresses of a target. */
export type Dial = (target: Target) => Socket

export interface Connector {
  readonly connect: buildConnector.connector
  /** Closes the connections that are being opened, and those that are opened later. */
  readonly close: () => void
}

export const makeConnector = (
  guard: WebGuard,
  resolve: Resolve,
  timeoutMs: number,
  dial: Dial = dialAddresses
): Connector => {
  const opening = new Set<Socket>()
  let isClosed = false

  const open = async (origin: string): Promise<Socket> => {
    let timer: NodeJS.Timeout | undefined
    let socket: Socket | undefined
    const late = new Promise<never>((_, reject) => {
      timer = setTimeout(() => reject(new ConnectTimeout()), timeoutMs)
    })
    try {
      const target = await Promise.race([checkedTarget(guard, resolve, origin), late])
      if (isClosed) throw new ConnectTimeout()
      opening.add((socket = dial(target)))
      await Promise.race([opened(socket, target), late])
      return socket
    } catch (error) {
      socket?.destroy()
      throw error
    } finally {
      clearTimeout(timer)
      if (socket !== undefined) opening.delete(socket)
    }
  }

  return {
    connect: ({ hostname, port, protocol }, callback) => {
      const host = isIP(hostname) === 6 ? `[${hostname}]` : hostname
      open(`${protocol}//${host}${port === "" ? "" : `:${port}`}/`).then(
        (socket) => callback(null, socket),
        (error: unknown) => callback(error as Error, null)
      )
    },
    close: () => {
      isClosed = true
      for (const socket of opening) socket.destroy()
    }
  }
}

/** The target with the addresses that were checked. Rejects with `UrlRefused`. */
const checkedTarget = async (guard: WebGuard, resolve: Resolve, origin: string): Promise<Target> => {
  const verdict = guard.checkUrl(origin)
  if (verdict._tag === "refused") throw refusal(origin, verdict.reason)
  const { target } = verdict
  if (target.addresses.length > 0) return target
  const resolved = guard.checkAddresses(target, await resolve(target.host))
  if (resolved._tag === "refused") throw refusal(origin, resolved.reason)
  return resolved.target
}

/** Connects to the checked addresses in turn. The name stays in `Host` and in the certificate's check. */
const dialAddresses: Dial = ({ addresses, host, port, url }) => {
  const found = addresses.map((address) => ({ address, family: isIP(address) }))
  const lookup: LookupFunction = (_, { all = false }, callback) =>
    all ? callback(null, found) : callback(null, found[0]!.address, found[0]!.family)
  const options = { host, port, lookup, autoSelectFamily: true }
  if (url.protocol === "http:") return connectTcp(options)
  return connectTls({ ...options, servername: isIP(host) === 0 ? host : "", ALPNProtocols: ["http/1.1"] })
}

const opened = (socket: Socket, { url }: Target): Promise<void> =>
  new Promise((succeed, fail) => {
    socket
      .setNoDelay(true)
      .on("error", fail)
      .once("close", () => fail(new ConnectTimeout()))
      .once(url.protocol === "https:" ? "secureConnect" : "connect", succeed)
  })

/** The connection was not made in time, or not before the client was closed. */
class ConnectTimeout extends Error {
  readonly code = "ETIMEDOUT"
}
