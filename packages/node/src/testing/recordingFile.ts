/**
 * Recordings of a `RecordedModel` in a file.
 *
 * @since 0.1.0
 */
import { mkdir, readFile, writeFile } from "node:fs/promises"
import { dirname } from "node:path"
import type { RecordedModel } from "@fermata/sdk/testing"
import * as Effect from "effect/Effect"

/**
 * Stores the recordings of a `RecordedModel` in a file. A missing file has no recordings; it is created, with its folder, when a response
 * is recorded. A file that cannot be read or written is a defect, which fails the test.
 *
 * @category constructors
 * @since 0.1.0
 */
export const recordingFile = (filename: string): RecordedModel.Recordings => ({
  read: Effect.promise(() =>
    readFile(filename, "utf8").catch((cause: NodeJS.ErrnoException) => {
      if (cause.code === "ENOENT") return undefined
      throw cause
    })
  ),
  write: (text) =>
    Effect.promise(async () => {
      await mkdir(dirname(filename), { recursive: true })
      await writeFile(filename, text)
    })
})
