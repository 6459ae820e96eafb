/**
 * The options of the HTTP server.
 *
 * @since 0.2.0
 */
import type { Principal } from "@fermata/sdk/domain/Principal"
import type * as Duration from "effect/Duration"
import type { Caller, TokenHolder } from "./Caller.ts"

/** How many requests a caller may send. */
export interface RateLimit {
  /** The number of requests a second in the long run. */
  readonly perSecond: number
  /** The number of requests at once. */
  readonly burst: number
}

/** The options of a server, besides what it serves. */
export interface HttpOptions {
  /** The address to listen on. Default: `127.0.0.1`. Any other than a loopback address requires `publicUrl`, and `principals` or `authenticate`. */
  readonly host?: string
  /** The port. Default: a free one. */
  readonly port?: number
  /**
   * The address by which clients reach the server through a proxy that ends TLS, such as `https://agents.example.com`. Requests must name its
   * host exactly.
   */
  readonly publicUrl?: string
  /** The token of the server's only caller, at least 32 characters. Default: 256 random bits for each start. */
  readonly token?: string
  /** The author of what the caller with `token` does. Default: the `by` of the Fermata. */
  readonly by?: string | Principal
  /** The callers with their tokens, instead of `token`. */
  readonly principals?: ReadonlyArray<TokenHolder>
  /**
   * Finds the caller of a token, such as one that an identity provider has issued, instead of `token` and `principals`. `undefined` refuses the
   * request.
   */
  readonly authenticate?: (token: string) => Caller | undefined | Promise<Caller | undefined>
  /** The key of the run context that holds the tenant. Default: `tenant`. */
  readonly tenantKey?: string
  /** Whether the command `Shutdown` is taken. Default: `true` with a single `token`, otherwise `false`. */
  readonly allowShutdown?: boolean
  /** The largest body in bytes. Default: 1,048,576. */
  readonly maxBodyBytes?: number
  /** The requests that each caller may send, and that may be refused for their tokens. Default: 100 a second, 200 at once. */
  readonly rateLimit?: RateLimit
  /** The event streams that each caller may have open. Default: 100. */
  readonly maxStreams?: number
  /** A comment is sent on an event stream when nothing else was sent for this long. Default: 15 seconds. */
  readonly heartbeat?: Duration.Input
  /** How long a client may take to send a request. Default: 30 seconds. */
  readonly requestTimeout?: Duration.Input
}
