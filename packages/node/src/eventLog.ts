/**
 * Event logs of control planes in files, for Promise programs: writes the events of a plane to a file, and reads such files.
 *
 * @since 0.2.0
 */
import type { Fermata } from "@fermata/sdk"
import type * as EventLog from "@fermata/sdk/control/EventLog"
import type { RuntimeEventEnvelope } from "@fermata/sdk/control/RuntimeEventEnvelope"
import * as Effect from "effect/Effect"
import * as Stream from "effect/Stream"

/**
 * Writes the events of a control plane to a file, one JSON object a line. Resolves when the plane has stopped. A slow disk delays no task:
 * the file then has the merged text.
 *
 * **Errors**
 *
 * Rejects with `OptionsInvalid` if an option is unknown or has a wrong value, and with a `PlatformError` if the file cannot be written. No task
 * is affected.
 *
 * **Example** (Logging and replaying a plane)
 *
 * ```ts run
 * import { mkdtempSync } from "node:fs"
 * import { tmpdir } from "node:os"
 * import { join } from "node:path"
 * import { agent, createFermata, logEvents, readEventLog } from "@fermata/node"
 * import { ScriptedModel } from "@fermata/node/testing"
 *
 * const path = join(mkdtempSync(join(tmpdir(), "fermata-")), "events.jsonl")
 * const { client: model } = ScriptedModel.make(["Hello."])
 * await using fermata = await createFermata({ agents: [agent("clerk")], model, store: false })
 * const plane = await fermata.controlPlane()
 * const logging = logEvents(plane, { path })
 * await plane.submit({ _tag: "SubmitPrompt", prompt: "Hi" })
 * for await (const { event } of plane.events()) if (event._tag === "session.saved") break
 * await plane.submit({ _tag: "Shutdown" })
 * await logging
 * for await (const { event } of readEventLog(path)) if (event._tag === "task.completed") console.log(event.text) // Hello.
 * ```
 *
 * @category observing
 * @since 0.2.0
 */
export const logEvents = async (
  plane: Pick<Fermata.RunControlPlane, "events">,
  options: EventLog.LogOptions
): Promise<void> => {
  const { files, log } = await load()
  const events = (from?: unknown) =>
    Stream.fromAsyncIterable(
      plane.events(typeof from === "number" ? { from } : {}),
      (error) => error as never
    )
  await Effect.runPromise(Effect.provide(log.write({ events }, options), files))
}

/**
 * Iterates over the envelopes of a file that `logEvents` has written. The iteration throws `EnvelopeVersionUnknown` or `EnvelopeMalformed`
 * for a line that this version cannot read, and a `PlatformError` if the file cannot be read. An incomplete last line, such as a killed
 * program leaves, is skipped.
 *
 * @category observing
 * @since 0.2.0
 */
export const readEventLog = (path: string): AsyncIterable<RuntimeEventEnvelope> => ({
  [Symbol.asyncIterator]: async function* () {
    const { files, log } = await load()
    yield* Stream.toAsyncIterable(Stream.provide(log.readFile(path), files))
  }
})

/** Loaded on first use, since most programs have no event log. */
const load = async () => {
  const [log, { layer }] = await Promise.all([
    import("@fermata/sdk/control/EventLog"),
    import("@effect/platform-node-shared/NodeFileSystem")
  ])
  return { log, files: layer }
}
