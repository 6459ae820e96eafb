/**
 * One process of a cell: `child.ts <module> <folder> <calls>`. It loads the system and makes its objects, reports that it is ready, does
 * the operation that it is sent, and reports the result. With `FERMATA_BENCH_DIES` it kills itself: `tool` right after the effect
 * of the gated tool, `model` when the model is called again.
 */
import * as Fs from "node:fs"
import * as Path from "node:path"
import type { HeldScript, OpenHolding, Outcome, Waiting } from "./Holding.ts"

/** The order for a process. */
export type Order =
  | { readonly do: "start" | "waiting" | "recover" | "ended" }
  | { readonly do: "approve"; readonly these: ReadonlyArray<Waiting> }
  | { readonly do: "say" | "supply"; readonly text: string }

/** A report of a process. */
export type Report =
  | { readonly ready: true }
  | { readonly value?: Outcome | ReadonlyArray<Waiting> | string }
  | { readonly error: string }

/** The file with one line for each effect of the tool. */
export const effectsFile = "effects.txt"
/** The file with one line of JSON for each call of the model. */
export const modelFile = "model.txt"

/** A call of the model. */
export interface ModelCall {
  /** Calls in the history without a result. */
  readonly open: number
  /** Whether the later message of the user was in the history. */
  readonly heard: boolean
}

/** Long enough for a second process to act in between. */
const toolMs = 300
export const done = "done"
export const message = "Tell the others before you go on."

const lines = (path: string): number =>
  Fs.existsSync(path) ? Fs.readFileSync(path, "utf8").split("\n").length - 1 : 0

const die = (where: string): void => {
  if (process.env["FERMATA_BENCH_DIES"] === where) process.kill(process.pid, "SIGKILL")
}

const scriptIn = (folder: string, calls: number): HeldScript => ({
  prompt: "Deploy what is ready.",
  tools: [
    {
      name: "deploy",
      description: "Deploys a build.",
      parameters: ["build"],
      gated: true,
      run: async ({ build }) => {
        Fs.appendFileSync(Path.join(folder, effectsFile), `${build}\n`)
        die("tool")
        await new Promise((resolve) => setTimeout(resolve, toolMs))
        return `deployed ${build}`
      }
    }
  ],
  ask: (request, open) => {
    const file = Path.join(folder, modelFile)
    const first = lines(file) === 0
    const call: ModelCall = { open, heard: JSON.stringify(request).includes(message) }
    Fs.appendFileSync(file, `${JSON.stringify(call)}\n`)
    if (!first) {
      die("model")
      return { text: done }
    }
    return {
      calls: Array.from({ length: calls }, (_, at) => ({
        id: `call_${at + 1}`,
        name: "deploy",
        arguments: JSON.stringify({ build: at + 1 })
      }))
    }
  }
})

const report = (what: Report): Promise<void> => new Promise((resolve) => process.send!(what, () => resolve()))

const main = async ([module, folder, calls]: ReadonlyArray<string>): Promise<void> => {
  const { open } = (await import(module!)) as { readonly open: OpenHolding }
  const store = Path.join(folder!, "store")
  Fs.mkdirSync(store, { recursive: true })
  const holding = await open(store, scriptIn(folder!, Number(calls)))
  const perform = (order: Order) => {
    switch (order.do) {
      case "approve":
        return holding.approve(order.these)
      case "say":
        return holding.say(order.text)
      case "supply":
        if (holding.supply === undefined) throw new Error("This system does not ask.")
        return holding.supply(order.text)
      default:
        return holding[order.do]()
    }
  }
  process.once("message", async (order: Order) => {
    try {
      const value = await perform(order)
      await report(value === undefined ? {} : { value })
      await holding.close()
    } catch (error) {
      await report({ error: error instanceof Error ? `${error.name}: ${error.message}` : String(error) })
    }
    process.exit(0)
  })
  // The parent process is gone.
  process.once("disconnect", () => process.exit(1))
  await report({ ready: true })
}

if (import.meta.main) await main(process.argv.slice(2))
