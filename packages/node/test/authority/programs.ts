/**
 * Programs that open one store, in turn or at once, and the calls of their tools.
 */
import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { agent, createFermata, tool } from "@fermata/node"
import { ScriptedModel } from "@fermata/node/testing"

export type Fermata = Awaited<ReturnType<typeof createFermata>>
type Options = Parameters<typeof createFermata>[0]
type Agents = Options["agents"]
type Script = Parameters<typeof ScriptedModel.make>[0]

/** A store in a file, the programs that open it, and a model that all of them share. */
export interface Programs extends AsyncDisposable {
  readonly file: string
  /** The calls whose bodies ran, in order. */
  readonly ran: Array<string>
  readonly open: (agents: Agents, options?: Partial<Options>) => Promise<Fermata>
}

export const programs = (script: Script): Programs => {
  const folder = mkdtempSync(join(tmpdir(), "fermata-authority-"))
  const file = join(folder, "runs.db")
  const model = ScriptedModel.make(script)
  const opened: Array<Fermata> = []
  return {
    file,
    ran: [],
    open: async (agents, options) => {
      const fermata = await createFermata({ agents, model: model.client, store: file, by: "ana", ...options })
      opened.push(fermata)
      return fermata
    },
    [Symbol.asyncDispose]: async () => {
      for (const fermata of opened) await fermata.close()
      rmSync(folder, { recursive: true, force: true })
    }
  }
}

type Doing = ReturnType<typeof tool>

/** A tool that records its calls. */
export const doing = (ran: Array<string>, name: string, options: object = {}): Doing =>
  tool(name, {
    handler: (args: unknown) => {
      const given = JSON.stringify(args)
      ran.push(given === "{}" ? name : `${name} ${given}`)
      return "done"
    },
    ...options
  })

/** An agent of these tools, under the name that the tests prompt. */
export const ops = (...tools: ReadonlyArray<Doing>): Agents => [agent("ops", { tools })]

/** The error that a promise was rejected with. */
export const refusal = (
  promise: Promise<unknown>
): Promise<{ readonly _tag?: string; readonly message?: string }> =>
  promise.then(
    () => {
      throw new Error("it was not refused")
    },
    (error: { readonly _tag?: string; readonly message?: string }) => error
  )
