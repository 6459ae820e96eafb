/**
 * The index of one scope in the memory of this process: built from the rows of the store, and extended by later rows.
 */
import type { StoredMemory } from "../../store/MemoryPort.ts"
import { decodeTerms } from "./encodedTerms.ts"
import { fuse } from "./fuse.ts"
import { type FoundPassage, searchIndexes, TermIndex } from "./TermIndex.ts"

/** An item of the index. Its text is in the store. */
export interface IndexedItem {
  readonly id: string
  readonly sessionId: string | undefined
  readonly sequence: number | undefined
}

/** How deep the ranked lists of a search are. */
const depth = 100

export class ScopeIndex {
  readonly items: Array<IndexedItem> = []
  readonly ids = new Set<string>()
  readonly chunks = new TermIndex()
  readonly windows = new TermIndex()
  /** The item of each chunk, and its place in the item. */
  readonly itemOfChunk: Array<number> = []
  readonly placeOfChunk: Array<number> = []
  /** The position of the last row, and the mark of the scope that it was read with. */
  position = -1
  next = -1
  removed = -1
  /** The last message of each session, whose window the next one completes. */
  private readonly last = new Map<string, { readonly item: number; readonly head: ReadonlyArray<string> }>()

  /** Adds a row. Returns `false` if its item is known in an earlier form: the index has to be built anew. */
  add(row: StoredMemory): boolean {
    if (this.ids.has(row.id)) return false
    this.position = row.position
    if (row.terms === "") return true
    const { chunks, head } = decodeTerms(row.terms)
    const item = this.items.length
    this.ids.add(row.id)
    this.items.push({ id: row.id, sessionId: row.sessionId, sequence: row.sequence })
    for (const [place, terms] of chunks.entries()) {
      const chunk = this.chunks.size
      this.chunks.add(chunk, terms)
      this.itemOfChunk.push(item)
      this.placeOfChunk.push(place)
    }
    this.windows.add(item, head)
    if (row.kind === "message" && row.sessionId !== undefined) {
      const before = this.last.get(row.sessionId)
      if (before !== undefined) {
        this.windows.add(before.item, head)
        this.windows.add(item, before.head)
      }
      this.last.set(row.sessionId, { item, head })
    }
    return true
  }
}

/** An item that was found, with its score and the place of its best chunk. */
export interface FoundItem extends IndexedItem {
  readonly score: number
  readonly place: number
}

/** Searches scopes as one: the chunks and the windows, fused. Returns the items that are not left out, best first. */
export const searchScopes = (
  scopes: ReadonlyArray<ScopeIndex>,
  terms: ReadonlyArray<string>,
  isLeftOut: (item: IndexedItem) => boolean
): ReadonlyArray<FoundItem> => {
  // What is left out takes no place in the ranked lists.
  const chunks = searchIndexes(
    scopes.map((scope) => scope.chunks),
    terms,
    depth,
    (index, chunk) => {
      const scope = scopes[index]!
      return isLeftOut(scope.items[scope.itemOfChunk[chunk]!]!)
    }
  )
  const windows = searchIndexes(
    scopes.map((scope) => scope.windows),
    terms,
    depth,
    (index, item) => isLeftOut(scopes[index]!.items[item]!)
  )
  const places = new Map<string, number>()
  const ofChunk = ({ index, passage }: FoundPassage): string => {
    const scope = scopes[index]!
    const key = `${index} ${scope.itemOfChunk[passage]!}`
    if (!places.has(key)) places.set(key, scope.placeOfChunk[passage]!)
    return key
  }
  const ofWindow = ({ index, passage }: FoundPassage): string => `${index} ${passage}`
  return fuse([chunks.map(ofChunk), windows.map(ofWindow)]).map(({ id: key, score }) => {
    const [index = 0, at = 0] = key.split(" ").map(Number)
    return { ...scopes[index]!.items[at]!, score, place: places.get(key) ?? 0 }
  })
}
