/**
 * The points of a rehearsal at which something can be made to happen, and the plan of what happens where.
 *
 * A point is `before` or `after` something that reaches out of the run: the store, the model, a tool's body, an effect that a
 * body records. Every passing is counted, so that `after-tool:pay#2` is the second time that the body of `pay` has ended.
 */
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import { lines, sentence } from "../../../domain/Display.ts"
import type { Reason } from "../../../model/ModelError.ts"
import type { Fault, Operation } from "../../FaultyRunStore.ts"
import { operations } from "../../FaultyRunStore.ts"

type When = "before" | "after"

/** A place in a rehearsal: `before` or `after` a model call, a tool's body, an operation of the store, a recorded effect. */
export type Place =
  | `${When}-model`
  | `${When}-tool:${string}`
  | `${When}-store:${Operation}`
  | `${When}-effect:${string}`

/** A place, the next time or (with `#3`) the third time that it is passed. */
export type Point = Place | `${Place}#${number}`

/** A point cannot be in this rehearsal, or what is to happen there cannot happen there. */
export class PointInvalid extends Schema.TaggedError<PointInvalid>()("PointInvalid", {
  point: Schema.String,
  problem: Schema.String
}) {
  override get message() {
    return sentence`"${this.point}" is no point of this rehearsal: ${lines(this.problem)}.`
  }
}

/** Something was to happen at a point that was never passed, so that nothing was proved. */
export class PointNotReached extends Schema.TaggedError<PointNotReached>()("PointNotReached", {
  points: Schema.Array(Schema.String),
  /** What was passed instead, in order. */
  passed: Schema.Array(Schema.String)
}) {
  override get message() {
    return (
      sentence`The rehearsal ended without passing ${this.points.join(", ")}, so nothing was tested there. ` +
      sentence`It passed: ${this.passed.join(", ") || "nothing"}.`
    )
  }
}

/** What a part of the outside world can fail with. */
export type Failure = Fault | Reason | Error

interface Planned {
  readonly point: string
  readonly place: string
  /** Which time; `undefined` for the next. */
  readonly time: number | undefined
  readonly failure: Failure | undefined
}

/** What happens at a point that was just passed. */
type Happening =
  | { readonly _tag: "nothing"; readonly point: string }
  | { readonly _tag: "crash"; readonly point: string }
  | { readonly _tag: "fail"; readonly point: string; readonly failure: Failure }

/** The points that were passed, and what is planned. */
export interface Points {
  readonly pass: (place: Place) => Happening
  /** Plans a crash, or with a `failure` that. */
  readonly plan: (point: Point, failure?: Failure) => Result.Result<void, PointInvalid>
  /** All that were passed, in order, each with its number. */
  readonly passed: ReadonlyArray<string>
  /** What was planned and has not happened. */
  readonly planned: () => ReadonlyArray<string>
}

const form = /^(before|after)-(model|tool|store|effect)(?::([^#]+))?(?:#([1-9]\d*))?$/

/** `tools` are the tools that there are. */
export const make = (tools: ReadonlySet<string>): Points => {
  const passed: Array<string> = []
  const times = new Map<string, number>()
  let plans: ReadonlyArray<Planned> = []

  const parse = (point: string, failure: Failure | undefined): Result.Result<Planned, PointInvalid> => {
    const invalid = (problem: string) => Result.fail(new PointInvalid({ point, problem }))
    const [, when, what, name, number] = form.exec(point) ?? []
    if (what === undefined) {
      return invalid(
        "points are before- or after- one of model, tool:NAME, store:OPERATION and effect:NAME, and may end in #NUMBER"
      )
    }
    if ((what === "model") !== (name === undefined)) {
      return invalid(what === "model" ? "a model call has no name" : `say which ${what}, as in ${what}:NAME`)
    }
    if (what === "tool" && !tools.has(name!)) {
      return invalid(`no agent here has a tool "${name}"; the tools are ${[...tools].join(", ") || "none"}`)
    }
    if (what === "store" && !operations.some((operation) => operation === name)) {
      return invalid(`a store has no operation "${name}"; the operations are ${operations.join(", ")}`)
    }
    if (failure !== undefined) {
      if ((what === "store") !== (typeof failure === "string")) {
        return invalid("a store fails with busy, full or connectionLost, and only a store does")
      }
      if (what === "store" && when === "after" && failure !== "connectionLost") {
        return invalid("after the store has done it, only the connection can be lost")
      }
      if (what === "model" && !isReason(failure)) {
        return invalid("a model fails with a reason of ModelError, such as RateLimited")
      }
    }
    const place = name === undefined ? `${when}-${what}` : `${when}-${what}:${name}`
    const time = number === undefined ? undefined : Number(number)
    if (time !== undefined && time <= (times.get(place) ?? 0)) {
      return invalid(`it was passed already, ${times.get(place)} times so far`)
    }
    return Result.succeed({ point, place, time, failure })
  }

  return {
    passed,
    planned: () => plans.map(({ point }) => point),
    plan: (point, failure) =>
      Result.map(parse(point, failure), (planned) => {
        plans = [...plans, planned]
      }),
    pass: (place) => {
      const time = (times.get(place) ?? 0) + 1
      times.set(place, time)
      const point = `${place}#${time}`
      passed.push(point)
      const planned = plans.find((plan) => plan.place === place && (plan.time ?? time) === time)
      if (planned === undefined) return { _tag: "nothing", point }
      plans = plans.filter((plan) => plan !== planned)
      return planned.failure === undefined
        ? { _tag: "crash", point }
        : { _tag: "fail", point, failure: planned.failure }
    }
  }
}

const isReason = (failure: Failure): boolean =>
  typeof failure === "object" && "_tag" in failure && "isRetryable" in failure
