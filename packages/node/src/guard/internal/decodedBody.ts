/**
 * The body of a response, decompressed, with a limit before and after the decompression.
 */
import { pipeline, type Readable, Transform } from "node:stream"
import { createBrotliDecompress, createGunzip } from "node:zlib"

/** The content codings that requests accept. */
export const acceptEncoding = "gzip, br"

/** A body is longer than its limit. */
export class BodyTooLarge extends Error {}

/** A body is in a coding that was not asked for. */
export class UnknownCoding extends Error {}

const decoders: Readonly<Record<string, () => Transform>> = {
  gzip: createGunzip,
  "x-gzip": createGunzip,
  br: createBrotliDecompress
}

/** Two codings are the most that an honest server uses; each multiplies what a few bytes can become. */
const mostCodings = 2

/** The bytes of a body. Destroys the body when its reader stops, and throws {@link BodyTooLarge} at the limit. */
export const decodedBody = (body: Readable, contentEncoding: string, maxSize: number): Readable => {
  const codings = contentEncoding
    .toLowerCase()
    .split(",")
    .map((coding) => coding.trim())
    .filter((coding) => coding !== "" && coding !== "identity")
    .reverse()
  const found = codings.map((coding) => decoders[coding])
  if (codings.length > mostCodings || found.includes(undefined)) {
    body.destroy()
    throw new UnknownCoding()
  }
  const stages = found.flatMap((decoder) => [decoder!(), limited(maxSize)])
  // `pipeline` destroys all stages with the first error, which the reader of the last one receives.
  const last = [limited(maxSize), ...stages].reduce<Readable>(
    (from, to) => pipeline(from, to, () => {}),
    body
  )
  // Without a reader, an error is no event that ends the process.
  return last.on("error", () => {})
}

const limited = (maxSize: number): Transform => {
  let size = 0
  return new Transform({
    transform: (chunk: Uint8Array, _, callback) => {
      size += chunk.length
      if (size > maxSize) callback(new BodyTooLarge())
      else callback(null, chunk)
    }
  })
}
