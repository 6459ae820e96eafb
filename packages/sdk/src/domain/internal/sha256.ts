/**
 * SHA-256, computed synchronously: the fold of an event needs the reference of a content.
 *
 * It uses the hash of Node and compatible platforms. Other platforms compute it in JavaScript, which takes about twenty times as long, because
 * Web Crypto is asynchronous and hashes only whole contents.
 */
import type { Sha256 } from "../Blob.ts"

/** Computes the SHA-256 of the pieces that it is given, in order. */
export interface Hasher {
  readonly update: (piece: Uint8Array) => void
  readonly digest: () => Sha256
}

/** Makes a hasher for a content that arrives in pieces. */
export const makeHasher = (): Hasher => {
  const hash = platformCrypto()?.createHash?.("sha256")
  if (hash === undefined) return makePortableHasher()
  return { update: (piece) => void hash.update(piece), digest: () => hash.digest("hex") as Sha256 }
}

/** The SHA-256 of bytes, or of a text as UTF-8. */
export const sha256Of = (content: Uint8Array | string): Sha256 => {
  const hash = platformCrypto()?.hash
  if (hash !== undefined) return hash("sha256", content, "hex") as Sha256
  const hasher = makeHasher()
  hasher.update(typeof content === "string" ? new TextEncoder().encode(content) : content)
  return hasher.digest()
}

interface PlatformCrypto {
  readonly hash?: (algorithm: "sha256", content: Uint8Array | string, encoding: "hex") => string
  readonly createHash?: (algorithm: "sha256") => {
    readonly update: (piece: Uint8Array) => unknown
    readonly digest: (encoding: "hex") => string
  }
}

/** The hashes of the platform, `null` if it has none. Set on first use. */
let found: PlatformCrypto | null | undefined

const platformCrypto = (): PlatformCrypto | null => (found ??= findCrypto() ?? null)

const findCrypto = (): PlatformCrypto | undefined => {
  const { process } = globalThis as {
    readonly process?: { readonly getBuiltinModule?: (name: string) => PlatformCrypto | undefined }
  }
  return process?.getBuiltinModule?.("crypto")
}

const blockSize = 64

/** SHA-256 as FIPS 180-4 describes it. */
export const makePortableHasher = (): Hasher => {
  const { constants, start } = (tables ??= makeTables())
  const state = start.slice()
  const words = new Uint32Array(blockSize)
  const block = new Uint8Array(blockSize)
  const view = new DataView(block.buffer)
  let length = 0
  const update = (piece: Uint8Array) => {
    for (let at = 0; at < piece.length;) {
      const filled = length % blockSize
      const added = piece.subarray(at, at + blockSize - filled)
      block.set(added, filled)
      at += added.length
      length += added.length
      if (length % blockSize === 0) addBlock(state, words, constants, view)
    }
  }
  return {
    update,
    digest: () => {
      const bits = length * 8
      const padding = new Uint8Array(((2 * blockSize - 9 - (length % blockSize)) % blockSize) + 9)
      const end = new DataView(padding.buffer)
      padding[0] = 0x80
      end.setUint32(padding.length - 8, Math.floor(bits / 0x1_0000_0000))
      end.setUint32(padding.length - 4, bits >>> 0)
      update(padding)
      return Array.from(state, (word) => word.toString(16).padStart(8, "0")).join("") as Sha256
    }
  }
}

let tables: ReturnType<typeof makeTables> | undefined

/** The constants of SHA-256: fractions of the roots of the first primes (FIPS 180-4, sections 4.2.2 and 5.3.3). */
const makeTables = () => {
  const primes: Array<number> = []
  for (let number = 2; primes.length < 64; number += 1)
    if (primes.every((prime) => number % prime !== 0)) primes.push(number)
  const fractionOf = (root: number) => (root - Math.floor(root)) * 0x1_0000_0000
  return {
    constants: Uint32Array.from(primes, (prime) => fractionOf(Math.cbrt(prime))),
    start: Uint32Array.from(primes.slice(0, 8), (prime) => fractionOf(Math.sqrt(prime)))
  }
}

const addBlock = (state: Uint32Array, words: Uint32Array, constants: Uint32Array, block: DataView): void => {
  for (let at = 0; at < 16; at += 1) words[at] = block.getUint32(at * 4)
  for (let at = 16; at < 64; at += 1) {
    const near = words[at - 15]!
    const far = words[at - 2]!
    const small = turn(near, 7) ^ turn(near, 18) ^ (near >>> 3)
    const large = turn(far, 17) ^ turn(far, 19) ^ (far >>> 10)
    words[at] = words[at - 16]! + small + words[at - 7]! + large
  }
  let a = state[0]!
  let b = state[1]!
  let c = state[2]!
  let d = state[3]!
  let e = state[4]!
  let f = state[5]!
  let g = state[6]!
  let h = state[7]!
  for (let at = 0; at < 64; at += 1) {
    const choice = (e & f) ^ (~e & g)
    const majority = (a & b) ^ (a & c) ^ (b & c)
    const one = (h + (turn(e, 6) ^ turn(e, 11) ^ turn(e, 25)) + choice + constants[at]! + words[at]!) | 0
    const two = ((turn(a, 2) ^ turn(a, 13) ^ turn(a, 22)) + majority) | 0
    h = g
    g = f
    f = e
    e = (d + one) | 0
    d = c
    c = b
    b = a
    a = (one + two) | 0
  }
  const added = [a, b, c, d, e, f, g, h]
  for (let at = 0; at < 8; at += 1) state[at] = state[at]! + added[at]!
}

const turn = (word: number, by: number): number => (word >>> by) | (word << (32 - by))
