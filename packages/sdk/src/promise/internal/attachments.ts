/**
 * `attachFile` and `readAttachment` of a Fermata.
 */
import type * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Stream from "effect/Stream"
import type { FilePart, TextPart } from "../../domain/Message.ts"
import { type Attachable, attachFile, type FileOptions } from "../../durable/attachFile.ts"
import { type Attachment as StoredAttachment, readAttachment } from "../../durable/readAttachment.ts"
import { joined } from "../../store/internal/blobs.ts"
import type { RunStore } from "../../store/RunStore.ts"

/** A file, or the whole text of a result that was cut. Its bytes are read on demand. */
export interface Attachment extends Omit<StoredAttachment, "stream"> {
  /** Reads the bytes piece by piece, from the byte `from` (default: 0), at most `length` bytes (default: all). */
  readonly stream: (options?: {
    readonly from?: number
    readonly length?: number
  }) => ReadableStream<Uint8Array>
  /** Reads all bytes. */
  readonly bytes: () => Promise<Uint8Array<ArrayBuffer>>
  /** Reads all bytes as UTF-8. */
  readonly text: () => Promise<string>
}

type Run = <A, E>(effect: Effect.Effect<A, E, RunStore>) => Promise<A>

/** Makes the methods `attachFile` and `readAttachment`. */
export const makeAttachments = ({
  context,
  run,
  runUntilClosed
}: {
  readonly context: Context.Context<never>
  readonly run: Run
  readonly runUntilClosed: Run
}) => ({
  attachFile: (content: Attachable, options?: FileOptions): Promise<FilePart> =>
    runUntilClosed(attachFile(content, options)),
  readAttachment: async (runId: string, given: FilePart | TextPart | string): Promise<Attachment> => {
    const found = await run(readAttachment(runId, given))
    const bytes = () => run(Effect.map(Stream.runCollect(found.stream()), joined))
    return {
      ...found,
      stream: (options) => Stream.toReadableStreamWith(found.stream(options), context),
      bytes,
      text: async () => new TextDecoder().decode(await bytes())
    }
  }
})
