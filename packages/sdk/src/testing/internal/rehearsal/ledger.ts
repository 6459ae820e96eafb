/**
 * What happened outside: the bodies of tools that ran, and the effects that they had.
 *
 * A body that returned counts as one effect under its tool's name. A body that says itself where its effects happen, by recording
 * them, is counted by what it recorded instead; only so can two effects of one body, or a second run that does nothing, be told
 * from one.
 */
import type { Safety } from "../../../domain/Interruption.ts"

/** One run of a tool's body. */
export interface Body {
  readonly tool: string
  readonly safety: Safety
  readonly idempotent: boolean
  readonly agentPath: ReadonlyArray<string>
  /** The idempotency key, which is the id of the call. */
  readonly key: string
  readonly attempt: number
  readonly worker: string
  readonly startedAt: number
  readonly state: "running" | "returned" | "failed"
  readonly endedAt?: number
  /** What it returned. */
  readonly value?: unknown
  /** Whether the tool says itself when its effects happen. */
  readonly records: boolean
}

/** Something that happened outside, once. */
export interface EffectRecord {
  readonly name: string
  readonly key: string
  readonly at: number
  /** Whether the body said so itself. */
  readonly recorded: boolean
  /** The body that did it, if it was one. */
  readonly body?: Body
}

/** The record of one rehearsal. */
export interface Ledger {
  readonly start: (body: Omit<Body, "state" | "records">) => { readonly end: (end: End) => void }
  /** The body that an effect is of: the one with this key, or the last one that has not ended. */
  readonly running: (key: string | undefined, isAlive: (worker: string) => boolean) => Body | undefined
  /** A body says itself when its effects happen. */
  readonly recording: (body: Body) => void
  readonly record: (effect: EffectRecord) => void
  readonly has: (name: string, key: string) => boolean
  readonly bodies: () => ReadonlyArray<Body>
  /** All effects, in order. */
  readonly effects: () => ReadonlyArray<EffectRecord>
}

type End =
  | { readonly state: "returned"; readonly endedAt: number; readonly value: unknown }
  | { readonly state: "failed"; readonly endedAt: number }

export const make = (): Ledger => {
  const bodies: Array<Body> = []
  /** Effects that were recorded, and bodies that have ended, in order. */
  const happened: Array<EffectRecord | Body> = []
  const recorders = new Set<string>()
  const isImplied = ({ safety, state, tool }: Body) =>
    safety !== "readOnly" && state === "returned" && !recorders.has(tool)
  return {
    start: (given) => {
      let body: Body = { ...given, state: "running", records: false }
      const index = bodies.push(body) - 1
      return {
        end: (end) => {
          // What was recorded while it ran is about the body as it was then.
          body = { ...body, ...end }
          bodies[index] = body
          happened.push(body)
        }
      }
    },
    running: (key, isAlive) =>
      bodies.findLast(
        (body) => body.state === "running" && isAlive(body.worker) && (key === undefined || body.key === key)
      ),
    recording: ({ tool }) => {
      recorders.add(tool)
    },
    has: (name, key) => happened.some((one) => "name" in one && one.name === name && one.key === key),
    record: (effect) => {
      happened.push(effect)
    },
    bodies: () => bodies.map((body) => ({ ...body, records: recorders.has(body.tool) })),
    effects: () =>
      happened.flatMap((one): ReadonlyArray<EffectRecord> => {
        if ("name" in one) return [one]
        const { endedAt, key, startedAt, tool } = one
        return isImplied(one)
          ? [{ name: tool, key, at: endedAt ?? startedAt, recorded: false, body: one }]
          : []
      })
  }
}
