/**
 * The effect record of a rehearsal: executions of tool bodies, and their effects.
 *
 * A body that returned counts as one effect under its tool's name, unless the tool is read-only or records its effects itself. For a tool
 * that records effects, only the recorded ones count. Only such records show that a body had two effects, or that a second execution had
 * none.
 */
import type { Safety } from "../../../domain/Interruption.ts"

/** One execution of a tool's body. */
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
  /** The returned value; absent unless the body returned. */
  readonly value?: unknown
  /** Whether the tool records its effects itself. */
  readonly records: boolean
}

/** A side effect. */
export interface EffectRecord {
  readonly name: string
  readonly key: string
  readonly at: number
  /** Whether the effect was recorded, and not inferred from a body that returned. */
  readonly recorded: boolean
  /** The body that had the effect, if it happened in a body. */
  readonly body?: Body
}

/** The effect record of one rehearsal. */
export interface Ledger {
  readonly start: (body: Omit<Body, "state" | "records">) => { readonly end: (end: End) => void }
  /** The last started body that is still running in a live worker, of the call with this key if one is given. */
  readonly running: (key: string | undefined, isAlive: (worker: string) => boolean) => Body | undefined
  /** Notes that the tool of this body records its effects itself. */
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
  /** Recorded effects and ended bodies, in order. */
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
          // A new object, because the effects recorded so far refer to the body as it was when they happened.
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
