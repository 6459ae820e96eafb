/**
 * The bytes of the `Blob`s in a result. They are read before the result is shown, because a `Blob` can only be read asynchronously.
 */

const bytes = new WeakMap<Blob, Uint8Array>()

/** The `Blob`s in a value, at any depth, whose bytes are not read yet. */
export const unreadBlobs = (value: unknown): ReadonlyArray<Blob> => {
  const found: Array<Blob> = []
  const seen = new Set<unknown>()
  const next: Array<unknown> = [value]
  while (next.length > 0) {
    const item = next.pop()
    if (typeof item !== "object" || item === null || ArrayBuffer.isView(item) || seen.has(item)) continue
    seen.add(item)
    try {
      if (!(item instanceof Blob)) for (const inside of valuesOf(item)) next.push(inside)
      else if (!bytes.has(item)) found.push(item)
    } catch {
      // An object that throws when it is read fails when it is shown.
    }
  }
  return found
}

/** The values that the model is shown. */
const valuesOf = (item: object): Iterable<unknown> =>
  item instanceof Map || item instanceof Set ? item.values() : Object.values(item)

export const readBlobs = async (blobs: ReadonlyArray<Blob>): Promise<void> => {
  for (const blob of blobs) bytes.set(blob, new Uint8Array(await blob.arrayBuffer()))
}

/** The bytes of a `Blob` that was read. */
export const bytesOfBlob = (blob: Blob): Uint8Array | undefined => bytes.get(blob)
