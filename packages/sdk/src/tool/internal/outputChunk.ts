/**
 * Pieces of output with the names of their streams.
 */
import type { OutputChunk } from "../../sandbox/Sandbox.ts"

/** The name of the stream that a piece of output belongs to. */
export type StreamName = OutputChunk["stream"]

/** Whether a value is a piece of output with the name of its stream. */
export const isOutputChunk = (given: unknown): given is OutputChunk =>
  typeof given === "object" &&
  given !== null &&
  isStreamName((given as { readonly stream?: unknown }).stream) &&
  typeof (given as { readonly chunk?: unknown }).chunk === "string"

/** Whether a value is the name of a stream of output. */
export const isStreamName = (given: unknown): given is StreamName => given === "stdout" || given === "stderr"
