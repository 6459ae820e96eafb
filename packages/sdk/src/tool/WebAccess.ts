/**
 * The access of a program's tools to the web: a guarded HTTP client.
 *
 * The URL of a tool's request may come from a model. The SDK therefore has no client of its own for tools. A program provides one that
 * judges every URL, redirect and address, such as `WebClient` of `@fermata/node`; a handler receives it as `context.http`. Without a
 * client, each use fails with `WebUnavailable`.
 *
 * @since 0.2.0
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import type * as HttpClient from "effect/http/HttpClient"
import type * as Scope from "effect/Scope"
import { TaggedError } from "../domain/TaggedError.ts"

/** A tool used `context.http` in a program that provides no client. Nothing was requested. Give the program the option `web`. */
export class WebUnavailable extends TaggedError<WebUnavailable>()("WebUnavailable", {}) {
  override get message() {
    return "This program gives its tools no access to the web: give it the option `web`, or provide `WebAccess`."
  }
}

/** Makes a guarded client, whose connections close with the scope. */
export type Shape = Effect.Effect<HttpClient.HttpClient, WebUnavailable, Scope.Scope>

/** The guarded client of the program's tools. Default: none; each use fails with `WebUnavailable`. */
export const WebAccess = Context.Reference<Shape>("@fermata/sdk/WebAccess", {
  defaultValue: () => Effect.fail(new WebUnavailable())
})
