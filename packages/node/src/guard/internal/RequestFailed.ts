import { Display, TaggedError } from "@fermata/sdk"
import * as Schema from "effect/Schema"

/**
 * A request to the web failed. `connection`: the connection cannot be made, or was lost. `timedOut`: the request took longer than `timeout`,
 * or the server sent nothing for `idleTimeout`. `tooLarge`: the headers or the body are longer than the limit. `redirects`: there are too many
 * redirects, or one cannot be followed. `malformed`: the request or the response is not valid HTTP, or its body cannot be decoded.
 */
export class RequestFailed extends TaggedError.TaggedError<RequestFailed>()("RequestFailed", {
  /** The URL without its user name, password and fragment; the last one after redirects. */
  url: Schema.String,
  reason: Schema.Literals(["connection", "timedOut", "tooLarge", "redirects", "malformed"]),
  /** The details: a limit, or the code of the system's error. */
  detail: Schema.String
}) {
  override get message() {
    return Display.sentence`The request to "${this.url}" failed: ${what[this.reason]} (${this.detail}).`
  }
}

const what = {
  connection: "no connection to the server; try again later, or use another source",
  timedOut: "the server is too slow; try again later, or use another source",
  tooLarge: "the response is too large; request a smaller one",
  redirects: "its redirects cannot be followed; request the final URL",
  malformed: "the response cannot be read"
}
