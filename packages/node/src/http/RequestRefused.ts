/**
 * Refusals of the HTTP interface itself: of requests that reach no command and no run.
 *
 * @since 0.2.0
 */
import { lines, sentence } from "@fermata/sdk/domain/Display"
import { TaggedError } from "@fermata/sdk/domain/TaggedError"
import * as Schema from "effect/Schema"

/**
 * The server refused a request, or could not answer it. `status` is the HTTP status and `reason` is for programs; the sentence says what to
 * do.
 *
 * @category errors
 * @since 0.2.0
 */
export class RequestRefused extends TaggedError<RequestRefused>()("RequestRefused", {
  status: Schema.Natural,
  reason: Schema.String,
  problem: Schema.String,
  /** When the same request may be sent again, if it came too early. */
  retryAfterMs: Schema.optionalKey(Schema.Finite)
}) {
  override get message() {
    return sentence`${lines(this.problem)}`
  }
}
