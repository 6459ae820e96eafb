/**
 * Finds where paths of another machine lead. What is asked at the same time is found by one script, because each script is a round trip.
 */
import type * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import type * as Fiber from "effect/Fiber"
import * as Scripts from "./fileScripts.ts"
import { HostFailed, type ShellHost } from "./shellHost.ts"

/** Where a path leads, as the script prints it; `undefined` if its links lead to no end. */
export type Place =
  | {
      readonly real: string
      readonly kind: string
      readonly links: number
      readonly sizeBytes: number
      readonly modifiedAt: number
      readonly mode: number
    }
  | undefined

interface Asked {
  readonly path: string
  readonly keepsLink: boolean
  readonly answer: (exit: Exit.Exit<Place, HostFailed>) => void
}

/** How many paths one script finds: the line that starts it has a longest length. */
const mostPaths = 16

const fieldsOfPlace = 6

export class HostLocator {
  private readonly host: ShellHost
  private asked = new Set<Asked>()

  constructor(host: ShellHost) {
    this.host = host
  }

  /** Finds where a path leads. With `keepsLink`, a link at its end is not followed. */
  locate(path: string, keepsLink: boolean): Effect.Effect<Place, HostFailed> {
    return Effect.withFiber(({ context }) =>
      Effect.callback((resume) => {
        const { asked } = this
        const one: Asked = { path, keepsLink, answer: resume }
        asked.add(one)
        // Only what is asked before the script starts has its answer: that may not be older than the question.
        if (asked.size === 1) setImmediate(() => this.begin(asked, context))
        if (asked.size === mostPaths) this.asked = new Set()
        return Effect.sync(() => void asked.delete(one))
      })
    )
  }

  private begin(asked: Set<Asked>, context: Context.Context<never>): void {
    if (this.asked === asked) this.asked = new Set()
    if (asked.size === 0) return
    const batch = [...asked]
    const args = batch.flatMap(({ keepsLink, path }) => [path, keepsLink ? "1" : "0"])
    const fiber: Fiber.Fiber<string, HostFailed> = Effect.runForkWith(context)(
      Effect.flatMap(this.host.run(Scripts.locate, { args }), ({ exitCode, stdout }) =>
        exitCode === 0
          ? Effect.succeed(stdout.toString())
          : Effect.fail(new HostFailed("the paths cannot be looked at", false))
      )
    )
    fiber.addObserver((exit) => {
      const fields = Exit.isSuccess(exit) ? exit.value.split("\0") : []
      for (const [index, each] of batch.entries())
        each.answer(Exit.map(exit, () => placeIn(fields.slice(index * fieldsOfPlace))))
    })
  }
}

const placeIn = ([real = "", kind = "", links, size, time, mode]: ReadonlyArray<string>): Place =>
  real === ""
    ? undefined
    : {
        real,
        kind,
        links: Number(links),
        sizeBytes: Number(size),
        modifiedAt: Number(time) * 1000,
        mode: Number.parseInt(mode ?? "0", 8)
      }
