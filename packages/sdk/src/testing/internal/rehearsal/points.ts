/**
 * The points of a rehearsal, and the crashes and failures that are planned at them.
 *
 * A point lies `before` or `after` an operation of the store, a model call, a tool's body or a recorded effect. Each passing is counted:
 * `after-tool:pay#2` is the second time that the body of `pay` has ended.
 */
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import { lines, sentence } from "../../../domain/Display.ts"
import { TaggedError } from "../../../domain/TaggedError.ts"
import type { Reason } from "../../../model/ModelError.ts"
import type { Fault, Operation } from "../../FaultyRunStore.ts"
import { operations } from "../../FaultyRunStore.ts"
import { make as makePoints, type Points } from "../simulation/points.ts"

type When = "before" | "after"

/** The name of a point: `before` or `after` a model call, a tool's body, an operation of the store, or a recorded effect. */
export type PointName =
  | `${When}-model`
  | `${When}-tool:${string}`
  | `${When}-store:${Operation}`
  | `${When}-effect:${string}`

/** A point: the next time that it is passed, or, with `#3`, the third time. */
export type Point = PointName | `${PointName}#${number}`

/** `crashAt` or `failAt`: the rehearsal has no such point, or the planned failure is not possible there. */
export class PointInvalid extends TaggedError<PointInvalid>()("PointInvalid", {
  point: Schema.String,
  problem: Schema.String
}) {
  override get message() {
    return sentence`Nothing can be planned at the point "${this.point}" of this rehearsal: ${lines(this.problem)}.`
  }
}

/** A crash or failure was planned at a point that was never passed, so the rehearsal tested nothing there. */
export class PointNotReached extends TaggedError<PointNotReached>()("PointNotReached", {
  points: Schema.Array(Schema.String),
  /** The points that were passed, in order. */
  passed: Schema.Array(Schema.String)
}) {
  override get message() {
    return (
      sentence`The rehearsal ended without passing ${this.points.join(", ")}, so nothing was tested there. ` +
      sentence`It passed: ${this.passed.join(", ") || "nothing"}.`
    )
  }
}

/** Nothing happened in a rehearsal for the time `patience`, or an operation did not complete within 200 workers. */
export class RehearsalStuck extends TaggedError<RehearsalStuck>()("RehearsalStuck", {
  after: Schema.optionalKey(Schema.String)
}) {
  override get message() {
    return (
      sentence`Nothing has happened since ${this.after ?? "the rehearsal began"}. If the run sleeps, advance the time with adjust() ` +
      `while it runs; if an operation takes real time, increase \`patience\`.`
    )
  }
}

/** A failure that can be planned: a `Fault` of the store, a reason of a `ModelError`, or an error of a tool or effect. */
export type Failure = Fault | Reason | Error

/** The points of a rehearsal and its plan. */
export interface RehearsalPoints extends Omit<Points<Failure | "crash">, "plan"> {
  /** Plans the failure, or a crash if none is given. */
  readonly plan: (point: Point, failure?: Failure) => Result.Result<void, PointInvalid>
}

const form = /^(before|after)-(model|tool|store|effect)(?::([^#]+))?(?:#([1-9]\d*))?$/

/** `tools` are the names of the tools of all agents in the rehearsal. */
export const make = (tools: ReadonlySet<string>): RehearsalPoints => {
  const points = makePoints<Failure | "crash">()

  const problemOf = (point: string, failure: Failure | undefined): string | undefined => {
    const [, when, what, name, number] = form.exec(point) ?? []
    if (what === undefined) {
      return "a point is before- or after-, then one of model, tool:NAME, store:OPERATION and effect:NAME, and optionally #NUMBER"
    }
    if ((what === "model") !== (name === undefined)) {
      return what === "model" ? "a model call has no name" : `name the ${what}, as in ${what}:NAME`
    }
    if (what === "tool" && !tools.has(name!)) {
      return `no agent here has a tool "${name}"; the tools are ${[...tools].join(", ") || "none"}`
    }
    if (what === "store" && !operations.some((operation) => operation === name)) {
      return `a store has no operation "${name}"; the operations are ${operations.join(", ")}`
    }
    if (failure !== undefined) {
      if ((what === "store") !== faults.some((fault) => fault === failure)) {
        return "a store can only fail with busy, full or connectionLost, and nothing else fails with these"
      }
      if (what === "store" && when === "after" && failure !== "connectionLost") {
        return "after an operation of the store, the only possible failure is connectionLost"
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
