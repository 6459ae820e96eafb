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
import { make as makePoints, type Points } from "../simulation/points.ts"

type When = "before" | "after"

/** The name of a point: `before` or `after` a model call, a tool's body, an operation of the store, a recorded effect. */
export type PointName =
  | `${When}-model`
  | `${When}-tool:${string}`
  | `${When}-store:${Operation}`
  | `${When}-effect:${string}`

/** A point by its name: the next time or (with `#3`) the third time that it is passed. */
export type Point = PointName | `${PointName}#${number}`

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

/** A rehearsal waits for something that will not happen by itself. */
export class RehearsalStuck extends Schema.TaggedError<RehearsalStuck>()("RehearsalStuck", {
  after: Schema.optionalKey(Schema.String)
}) {
  override get message() {
    return (
      sentence`Nothing has happened since ${this.after ?? "the rehearsal began"}. If something sleeps, move the time with adjust() while the ` +
      `run goes on; if it takes real time, raise \`patience\`.`
    )
  }
}

/** What a part of the outside world can fail with. */
export type Failure = Fault | Reason | Error

/** The points of a rehearsal, and what is planned at them. */
export interface RehearsalPoints extends Omit<Points<Failure | "crash">, "plan"> {
  /** Plans a crash, or with a `failure` that. */
  readonly plan: (point: Point, failure?: Failure) => Result.Result<void, PointInvalid>
}

const form = /^(before|after)-(model|tool|store|effect)(?::([^#]+))?(?:#([1-9]\d*))?$/

/** `tools` are the tools that there are. */
export const make = (tools: ReadonlySet<string>): RehearsalPoints => {
  const points = makePoints<Failure | "crash">()

  const problemOf = (point: string, failure: Failure | undefined): string | undefined => {
    const [, when, what, name, number] = form.exec(point) ?? []
    if (what === undefined) {
      return "points are before- or after- one of model, tool:NAME, store:OPERATION and effect:NAME, and may end in #NUMBER"
    }
    if ((what === "model") !== (name === undefined)) {
      return what === "model" ? "a model call has no name" : `say which ${what}, as in ${what}:NAME`
    }
    if (what === "tool" && !tools.has(name!)) {
      return `no agent here has a tool "${name}"; the tools are ${[...tools].join(", ") || "none"}`
    }
    if (what === "store" && !operations.some((operation) => operation === name)) {
      return `a store has no operation "${name}"; the operations are ${operations.join(", ")}`
    }
    if (failure !== undefined) {
      if ((what === "store") !== faults.some((fault) => fault === failure)) {
        return "a store fails with busy, full or connectionLost, and only a store does"
      }
      if (what === "store" && when === "after" && failure !== "connectionLost") {
        return "after the store has done it, only the connection can be lost"
      }
      if (what === "model" && !isReason(failure)) {
        return "a model fails with a reason of ModelError, such as RateLimited"
      }
      if (typeof failure !== "object" && what !== "store") return `a ${what} fails with an Error`
    }
    const passed = points.count(point.split("#")[0] ?? "")
    return Number(number) <= passed ? `it was passed already, ${passed} times so far` : undefined
  }

  return {
    ...points,
    plan: (point, failure) => {
      const problem = problemOf(point, failure)
      if (problem !== undefined) return Result.fail(new PointInvalid({ point, problem }))
      const [place = "", number] = point.split("#")
      const time = number === undefined ? undefined : Number(number)
      points.plan({ place, time, fault: failure ?? "crash" })
      return Result.void
    }
  }
}

const faults: ReadonlyArray<Fault> = ["busy", "full", "connectionLost"]

const isReason = (failure: Failure): boolean =>
  typeof failure === "object" && "_tag" in failure && "isRetryable" in failure
