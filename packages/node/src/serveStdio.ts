/**
 * Serves a Fermata by lines of JSON on standard input and output, for programs of any language that start it as a child process.
 *
 * @since 0.2.0
 */
import type { Readable, Writable } from "node:stream"
import { Display, type Fermata, type Storeless } from "@fermata/sdk"
import type { RuntimeCommand } from "@fermata/sdk/control/RuntimeCommand"
import { OptionsInvalid } from "@fermata/sdk/domain"
import type { Principal } from "@fermata/sdk/domain/Principal"

/** The options of `serveStdio`. */
export interface ServeStdioOptions {
  /** The author of the commands, since the program that starts the child is trusted. Default: the `by` of the Fermata. */
  readonly by?: string | Principal
  /** Where commands come from. Default: the standard input of the process. */
  readonly input?: Readable
  /** Where events and answers go. Default: the standard output of the process, on which the program then writes nothing else. */
  readonly output?: Writable
  /** The longest line of a command in bytes. A longer one is answered with a rejection. Default: 16,777,216. */
  readonly maxLineBytes?: number
}

/**
 * Serves a Fermata on standard input and output. Resolves when the runtime has stopped: after the command `Shutdown`, or when the input has
 * ended; then stored tasks are suspended, so that another process can resume them.
 *
 * **Details**
 *
 * Each line of the input is a command, as `controlPlane().submit` takes it. Each line of the output is an object with one key: `event` with an
 * envelope, `acknowledgement`, or `rejection` with the `commandId`, the `_tag`, the `message` and the fields of an error. Give each
 * command a `commandId`, to find its answer. A parent that does not read delays no task: texts that it has not read are merged.
 *
 * **Example** (A child that another program drives)
 *
 * ```ts run
 * import { PassThrough } from "node:stream"
 * import { agent, createFermata, serveStdio } from "@fermata/node"
 * import { ScriptedModel } from "@fermata/node/testing"
 *
 * const { client: model } = ScriptedModel.make(["Hello."])
 * await using fermata = await createFermata({ agents: [agent("clerk")], model, store: ":memory:" })
 * const input = new PassThrough() // in a child process, leave `input` and `output` out
 * const output = new PassThrough().setEncoding("utf8")
 * const serving = serveStdio(fermata, { input, output })
 * input.write('{"_tag":"SubmitPrompt","commandId":"1","prompt":"Hi"}\n')
 * for await (const lines of output) if (lines.includes('"task.completed"')) break
 * input.end()
 * await serving
 * ```
 *
 * @category constructors
 * @since 0.2.0
 */
export const serveStdio = async (
  fermata: Pick<Fermata.Fermata | Storeless.Storeless, "controlPlane">,
  options: ServeStdioOptions = {}
): Promise<void> => {
  const problem = OptionsInvalid.problemOf("serveStdio", options, shape)
  if (problem !== undefined) throw problem
  const { by, input = process.stdin, maxLineBytes = 16_777_216, output = process.stdout } = options
  const plane = await fermata.controlPlane(by === undefined ? {} : { by })
  const lines = new LineWriter(output)
  const events = (async () => {
    for await (const event of plane.events()) {
      lines.write({ event })
      // Answers do not wait, and are few; the events wait until the parent reads.
      await lines.room
    }
  })()
  const commands = (async () => {
    for await (const line of linesOf(input, maxLineBytes)) {
      if (line === "") continue
      const command = typeof line === "string" ? parsed(line) : undefined
      if (command === undefined) {
        const message = line === tooLong ? `it has more than ${maxLineBytes} bytes` : "it is no JSON"
        lines.write({
          rejection: { _tag: "CommandInvalid", message: `This line is no command: ${message}.` }
        })
        continue
      }
      const { commandId } = (command.value ?? {}) as { readonly commandId?: unknown }
      const ofCommand = typeof commandId === "string" ? { commandId } : {}
      await plane.submit(command.value as RuntimeCommand).then(
        (acknowledgement) => lines.write({ acknowledgement }),
        (error: unknown) => lines.write({ rejection: { ...ofCommand, ...fieldsOf(error) } })
      )
    }
  })()
  try {
    await Promise.race([events, commands])
  } finally {
    await plane[Symbol.asyncDispose]()
    await events
    input.destroy()
    await lines.flushed
  }
}

const isStream = (value: unknown, method: string): boolean =>
  typeof value === "object" &&
  value !== null &&
  typeof (value as Readonly<Record<string, unknown>>)[method] === "function"

const shape: OptionsInvalid.Shape = {
  keys: {
    by: "anything",
    input: { takes: "a readable stream", is: (value) => isStream(value, "read") },
    output: { takes: "a writable stream", is: (value) => isStream(value, "write") },
    maxLineBytes: {
      takes: "a whole number from 1",
      is: (value) => Number.isSafeInteger(value) && (value as number) >= 1,
      among: ["number"]
    }
  }
}

/** The fields of an error, with its tag and its sentence. */
const fieldsOf = (error: unknown): object => {
  const { _tag: tag } = (error ?? {}) as { readonly _tag?: unknown }
  const _tag = typeof tag === "string" ? tag : "Unknown"
  const { cause: _, ...fields } = (typeof error === "object" ? error : {}) as { readonly cause?: unknown }
  return { ...fields, _tag, message: Display.messageOf(error) }
}

const parsed = (line: string): { readonly value: unknown } | undefined => {
  try {
    return { value: JSON.parse(line) as unknown }
  } catch {
    return undefined
  }
}

const tooLong = Symbol("tooLong")

/** The lines of a stream. A line above the limit is one symbol, and is not kept. */
const linesOf = async function* (input: Readable, maxBytes: number): AsyncGenerator<string | typeof tooLong> {
  let pieces: Array<Buffer> = []
  let length = 0
  const take = (): string | typeof tooLong => {
    const line = length > maxBytes ? tooLong : Buffer.concat(pieces).toString("utf8").replace(/\r$/, "")
    pieces = []
    length = 0
    return line
  }
  const keep = (piece: Buffer) => {
    length += piece.length
    if (length <= maxBytes) pieces.push(piece)
    else pieces = []
  }
  for await (const given of input) {
    let rest = Buffer.from(given as Buffer | string)
    for (let end = rest.indexOf(10); end >= 0; end = rest.indexOf(10)) {
      keep(rest.subarray(0, end))
      yield take()
      rest = rest.subarray(end + 1)
    }
    keep(rest)
  }
  if (length > 0) yield take()
}

/** Writes lines of JSON, each as a whole. */
class LineWriter {
  private readonly output: Writable
  private isGone = false

  constructor(output: Writable) {
    this.output = output
    // A parent that has ended reads no more; the input ends, too.
    output.on("error", () => (this.isGone = true))
    output.on("close", () => (this.isGone = true))
  }

  write(value: object): void {
    if (!this.isGone) this.output.write(`${JSON.stringify(value)}\n`)
  }

  /** Resolves when the parent has read enough. */
  get room(): Promise<void> | undefined {
    if (this.isGone || !this.output.writableNeedDrain) return undefined
    return new Promise((resolve) => {
      const go = () => {
        for (const name of ["drain", "close", "error"]) this.output.off(name, go)
        resolve()
      }
      for (const name of ["drain", "close", "error"]) this.output.on(name, go)
    })
  }

  /** Resolves when everything was handed to the parent. */
  get flushed(): Promise<void> {
    return new Promise((resolve) => {
      if (this.isGone) resolve()
      else this.output.write("", () => resolve())
    })
  }
}
