/**
 * The fate of a held run: each cell runs with real processes on a real store, and its outcome is derived from the observations, by the
 * same rules for every system.
 */
import * as ChildProcess from "node:child_process"
import { once } from "node:events"
import * as Fs from "node:fs"
import * as Path from "node:path"
import { done, effectsFile, message, type ModelCall, modelFile, type Order, type Report } from "./child.ts"
import type { Outcome, Waiting } from "./Holding.ts"

/**
 * The outcome of a cell:
 *
 * - `right`: every approved call has run once, no other call has, and the run ended.
 * - `runs twice`: a call has run more than once.
 * - `runs unasked`: a call ran without approval.
 * - `too soon`: the model was called while a call in its history had no result, which providers refuse.
 * - `lost`: an approved call has not run, the model never received the message, or the run cannot be brought to its end.
 * - `refused`: the system refused the operation, left the run unchanged, and came to the right end by another way.
 */
export type Word = "right" | "runs twice" | "runs unasked" | "too soon" | "lost" | "refused"

/** A cell, with its observations. */
export interface Seen {
  readonly word: Word
  readonly detail: string
}

/** The result of an operation. */
type Came<A> = { readonly value: A } | { readonly error: string } | { readonly died: true }

const processOf = (module: string, folder: string, calls: number, environment: NodeJS.ProcessEnv) => {
  const child = ChildProcess.fork(
    Path.join(import.meta.dirname, "child.ts"),
    [module, folder, String(calls)],
    { cwd: Path.join(import.meta.dirname, ".."), env: environment, silent: true, execArgv: [] }
  )
  let errors = ""
  child.stdout!.resume()
  child.stderr!.on("data", (data: Buffer) => (errors = (errors + String(data)).slice(-2000)))
  return { child, errors: () => /^.*Error.*$/m.exec(errors)?.[0] ?? errors.trim() }
}

/** Runs one cell in a folder of its own. */
const stage = (module: string, folder: string, calls: number) => {
  /** A process that is ready; the function returned sends it the order. */
  const ready = async (dies?: "tool" | "model") => {
    const { child, errors } = processOf(module, folder, calls, {
      ...process.env,
      ...(dies === undefined ? {} : { FERMATA_BENCH_DIES: dies })
    })
    const closed = once(child, "exit") as Promise<[number | null, NodeJS.Signals | null]>
    const first = await Promise.race([once(child, "message"), closed.then(() => undefined)])
    if (first === undefined) throw new Error(`A process did not start: ${errors()}`)
    return async <A>(order: Order): Promise<Came<A>> => {
      const said = once(child, "message") as Promise<[Report]>
      child.send(order)
      const came = await Promise.race([said, closed])
      const [what] = came
      if (typeof what === "object" && what !== null && "error" in what) {
        await closed
        return { error: what.error }
      }
      if (typeof what === "object" && what !== null) {
        await closed
        return { value: ("value" in what ? what.value : undefined) as A }
      }
      if (came[1] === "SIGKILL") return { died: true }
      throw new Error(`A process ended: ${errors()}`)
    }
  }
  const act = async <A>(order: Order, dies?: "tool" | "model"): Promise<Came<A>> =>
    (await ready(dies))<A>(order)
  /** For an operation that must work for the cell to show anything. */
  const must = async <A>(order: Order): Promise<A> => {
    const came = await act<A>(order)
    if ("value" in came) return came.value
    throw new Error(`${order.do}: ${"error" in came ? came.error : "the process died"}`)
  }
  const read = (name: string): ReadonlyArray<string> => {
    const path = Path.join(folder, name)
    return Fs.existsSync(path) ? Fs.readFileSync(path, "utf8").split("\n").slice(0, -1) : []
  }
  const effects = (): ReadonlyArray<number> => read(effectsFile).map(Number)
  const asked = (): ReadonlyArray<ModelCall> => read(modelFile).map((line) => JSON.parse(line) as ModelCall)
  const waiting = () => must<ReadonlyArray<Waiting>>({ do: "waiting" })
  const begin = async (expected: number): Promise<ReadonlyArray<Waiting>> => {
    await must({ do: "start" })
    const these = await waiting()
    if (these.length === 0 || these.length > expected)
      throw new Error(`${these.length} calls wait for an approval, not ${expected}.`)
    return these
  }
  /** Brings the run to its end as a careful operator would: approves waiting calls and answers requests. */
  const finish = async (): Promise<string | undefined> => {
    for (let attempt = 0; attempt < 4; attempt++) {
      const text = await must<string | undefined>({ do: "ended" })
      if (text !== undefined) return text
      const these = await waiting()
      const came =
        these.length > 0
          ? await act<Outcome>({ do: "approve", these })
          : await act<Outcome>({ do: "recover" })
      if ("value" in came && came.value.status === "asks")
        await act({ do: "supply", text: "It was deployed: seen on the server." })
    }
    return must<string | undefined>({ do: "ended" })
  }
  return { ready, act, must, effects, asked, waiting, begin, finish }
}

const resultOf = (came: Came<Outcome>): string =>
  "value" in came ? came.value.status : "error" in came ? came.error.split("\n")[0]!.slice(0, 120) : "killed"

const times = (effects: ReadonlyArray<number>, build: number): number =>
  effects.filter((one) => one === build).length

/** The observations that all cells share. */
const judge = (
  effects: ReadonlyArray<number>,
  builds: ReadonlyArray<number>,
  text: string | undefined
): Word => {
  if (builds.some((build) => times(effects, build) > 1)) return "runs twice"
  if (builds.some((build) => times(effects, build) === 0) || text !== done) return "lost"
  return "right"
}

const openCalls = (calls: ReadonlyArray<ModelCall>): boolean => calls.some(({ open }) => open > 0)

type Play = (module: string, folder: string) => Promise<Seen>

const ran = (effects: ReadonlyArray<number>): string =>
  `the tool ran ${effects.length === 1 ? "once" : `${effects.length} times`}`

/** Two processes approve the same call, this many milliseconds apart, and resume the run. */
const twoAtOnce =
  (gap: number): Play =>
  async (module, folder) => {
    const { begin, effects, finish, ready } = stage(module, folder, 1)
    const these = await begin(1)
    const [first, second] = [await ready(), await ready()]
    const order: Order = { do: "approve", these }
    const one = first<Outcome>(order)
    if (gap > 0) await new Promise((resolve) => setTimeout(resolve, gap))
    const other = second<Outcome>(order)
    const came = [await one, await other]
    const text = await finish()
    return {
      word: judge(effects(), [1], text),
      detail: `${ran(effects())}; results: ${came.map(resultOf).join(" / ")}`
    }
  }

/** The approval is sent again after the run has ended. */
const again: Play = async (module, folder) => {
  const { act, asked, begin, effects, finish } = stage(module, folder, 1)
  const these = await begin(1)
  await act({ do: "approve", these })
  await finish()
  const calls = asked().length
  const second = await act<Outcome>({ do: "approve", these })
  const more = asked().length - calls
  const text = await finish()
  return {
    word: judge(effects(), [1], text),
    detail: `${ran(effects())}; result: ${resultOf(second)}${more > 0 ? "; the model was called once more" : ""}`
  }
}

/** The process is killed after the effect, and another one continues. */
const killed =
  (where: "tool" | "model"): Play =>
  async (module, folder) => {
    const { act, begin, effects, finish } = stage(module, folder, 1)
    const these = await begin(1)
    const came = await act<Outcome>({ do: "approve", these }, where)
    if (!("died" in came)) throw new Error(`The process was not killed: ${resultOf(came)}`)
    const after = await act<Outcome>({ do: "recover" })
    if ("value" in after && after.value.status === "asks")
      await act({ do: "supply", text: "It was deployed: seen on the server." })
    const text = await finish()
    return { word: judge(effects(), [1], text), detail: `${ran(effects())}; then: ${resultOf(after)}` }
  }

/** One of two calls is approved, then the other one. */
const oneOfTwo: Play = async (module, folder) => {
  const { act, asked, begin, effects, finish, waiting } = stage(module, folder, 2)
  const these = await begin(2)
  const came = await act<Outcome>({ do: "approve", these: these.filter(({ build }) => build === 1) })
  const [early, calls] = [effects(), asked()]
  const left = (await waiting()).map(({ build }) => build)
  const text = await finish()
  const all = effects()
  const end = judge(all, [1, 2], text)
  const word =
    times(early, 2) > 0
      ? "runs unasked"
      : end !== "right"
        ? end
        : openCalls(calls)
          ? "too soon"
          : early.length === 0
            ? "refused"
            : !left.includes(2)
              ? "lost"
              : "right"
  return {
    word,
    detail: `${these.length} of 2 shown; result: ${resultOf(came)}; ran at once: ${early.join(", ") || "none"}; then waited: ${left.join(", ") || "none"}; in the end ran: ${all.join(", ") || "none"}`
  }
}

/** The user sends a message while the call waits; then the call is approved. */
const messageMeanwhile: Play = async (module, folder) => {
  const { act, asked, begin, effects, finish, waiting } = stage(module, folder, 1)
  const these = await begin(1)
  const came = await act<Outcome>({ do: "say", text: message })
  const still = (await waiting()).length
  const early = effects()
  const approved = still > 0 ? await act<Outcome>({ do: "approve", these }) : undefined
  const text = await finish()
  const end = judge(effects(), [1], text)
  const heard = asked().some((call) => call.heard)
  const word =
    early.length > 0
      ? "runs unasked"
      : end !== "right"
        ? end
        : openCalls(asked())
          ? "too soon"
          : "error" in came
            ? "refused"
            : heard
              ? "right"
              : "lost"
  return {
    word,
    detail: `result: ${resultOf(came)}; then waited: ${still}; approved: ${approved === undefined ? "not possible" : resultOf(approved)}; ${ran(effects())}; the model ${heard ? "received" : "did not receive"} the message`
  }
}

/** The cells, by the keys under which they are reported. */
export const cells = {
  atOnce: { title: "two at once", play: twoAtOnce(0), times: 3 },
  apart: { title: "two, 60 ms apart", play: twoAtOnce(60), times: 3 },
  again: { title: "approved again later", play: again, times: 1 },
  killedInTool: { title: "killed in the tool", play: killed("tool"), times: 1 },
  killedAfterTool: { title: "killed after the tool", play: killed("model"), times: 1 },
  oneOfTwo: { title: "one of two approved", play: oneOfTwo, times: 1 },
  message: { title: "message while held", play: messageMeanwhile, times: 1 }
} as const
