/**
 * Reads the frames that the script `follow` prints.
 */
import type { Output } from "./commandHandle.ts"

/** The last frame. */
export type End =
  | {
      readonly kind: "ended"
      readonly exitCode: number
      /** How many bytes of each stream were not stored. */
      readonly missing: { readonly stdout: number; readonly stderr: number }
    }
  | { readonly kind: "gone" | "running" | "unknown" }

/** A reader of frames, which may come in pieces of any size. */
export class FrameReader {
  /** Set when the last frame was read. */
  end: End | undefined
  /** Called when the command was started. */
  onBegun: () => void = () => undefined
  private readonly output: Output
  private line = ""
  private stream: "stdout" | "stderr" | undefined
  private rest = 0

  constructor(output: Output) {
    this.output = output
  }

  add(bytes: Uint8Array): void {
    let at = 0
    while (at < bytes.length) {
      if (this.stream !== undefined && this.rest > 0) {
        const piece = bytes.slice(at, at + this.rest)
        this.output[this.stream](piece)
        this.rest -= piece.length
        at += piece.length
        continue
      }
      const newline = bytes.indexOf(10, at)
      const stop = newline === -1 ? bytes.length : newline
      this.line += Buffer.from(bytes.subarray(at, stop)).toString("latin1")
      at = stop + 1
      if (newline === -1) return
      this.header(this.line)
      this.line = ""
    }
  }

  private header(line: string): void {
    const [kind, ...numbers] = line.split(" ")
    const [first = 0, second = 0, third = 0] = numbers.map(Number)
    if (kind === "o" || kind === "e") {
      this.stream = kind === "o" ? "stdout" : "stderr"
      this.rest = first
    } else if (kind === "x")
      this.end = { kind: "ended", exitCode: first, missing: { stdout: second, stderr: third } }
    else if (kind === "b") this.onBegun()
    else if (kind === "g") this.end = { kind: "gone" }
    else if (kind === "r") this.end = { kind: "running" }
    else if (kind === "u") this.end = { kind: "unknown" }
  }
}
