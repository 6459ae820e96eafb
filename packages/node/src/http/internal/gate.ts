/**
 * The checks that a request must pass before anything reads it. Any page in a browser can send requests to a local port, by its address or by a
 * name that its owner points there; so the host, the origin and the form of a request are checked, besides its token.
 */
import type { IncomingMessage } from "node:http"
import { RequestRefused } from "../RequestRefused.ts"

/** The names by which clients may address the server, and the origins that may send requests. */
export interface Places {
  readonly hosts: ReadonlySet<string>
  readonly origins: ReadonlySet<string>
}

/** The places of a server that listens on an address, and is reached by `publicUrl` if there is one. */
export const placesOf = (host: string, port: number, publicUrl: URL | undefined): Places => {
  if (publicUrl !== undefined)
    return { hosts: new Set([publicUrl.host]), origins: new Set([publicUrl.origin]) }
  const own = host.includes(":") ? `[${host}]` : host
  const hosts = [`${own}:${port}`, `localhost:${port}`]
  // A client leaves out the port of the scheme.
  if (port === 80) hosts.push(own, "localhost")
  return { hosts: new Set(hosts), origins: new Set(hosts.map((name) => `http://${name}`)) }
}

const refuse = (status: number, reason: string, problem: string) =>
  new RequestRefused({ status, reason, problem })

/** The one value of a header; `null` if the request has several, which proxies and servers understand in different ways. */
const only = (request: IncomingMessage, name: string): string | undefined | null => {
  const values = request.headersDistinct[name]
  return values === undefined ? undefined : values.length === 1 ? values[0] : null
}

/** The refusal of a request, or `undefined` if it may go on to its authentication. */
export const check = (request: IncomingMessage, places: Places): RequestRefused | undefined => {
  const host = only(request, "host")
  if (typeof host !== "string" || !places.hosts.has(host.toLowerCase()))
    return refuse(403, "HostRefused", "This server answers only to its own address.")
  const origin = only(request, "origin")
  if (origin !== undefined && (origin === null || !places.origins.has(origin)))
    return refuse(403, "OriginRefused", "This server takes no requests of other origins.")
  const site = only(request, "sec-fetch-site")
  if (site !== undefined && site !== "same-origin" && site !== "none")
    return refuse(403, "OriginRefused", "This server takes no requests of other sites.")
  const { method, url = "" } = request
  if (method !== "GET" && method !== "POST")
    return refuse(405, "MethodRefused", "This server takes GET and POST alone.")
  // One path has one spelling, so that no proxy in front reads another one.
  if (!url.startsWith("/") || /\/\/|\\|%2e|%2f|%5c|\/\.{1,2}(\/|\?|$)/i.test(url.split("?", 1)[0]!))
    return refuse(400, "PathInvalid", "This path is not in its normal form.")
  if (method === "POST" && !isJson(only(request, "content-type")))
    return refuse(415, "TypeRefused", "The body of a request is JSON: send it as application/json.")
  return undefined
}

/** A form, which needs no consent of the server, cannot have this type. */
const isJson = (type: string | undefined | null): boolean =>
  typeof type === "string" && /^application\/json\s*(;\s*charset="?utf-8"?\s*)?$/i.test(type)
