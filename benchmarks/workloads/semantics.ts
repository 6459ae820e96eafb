/**
 * What becomes of a held run when things do not go as planned.
 */
import * as Path from "node:path"
import type { Workload } from "../harness/Workload.ts"
import { cells, type Seen } from "../semantics/cells.ts"

/** Where a system's runs are held, from this folder; or why there is nothing to see. */
const modules: Readonly<Record<string, string | { readonly cannot: string }>> = {
  fermata: "../semantics/fermata.ts",
  ai: "../peers/semantics/aiSdk.ts",
  openai: "../peers/semantics/openaiAgents.ts",
  langgraph: "../peers/semantics/langgraph.ts",
  mastra: "../peers/semantics/mastra.ts",
  adk: "../peers/semantics/adk.ts",
  "effect-ai": "../semantics/effectAi.ts",
  "effect-workflow": {
    cannot:
      "it has no approvals: a workflow awaits a deferred value, and the loop, the calls and their approval are the program's."
  },
  "agent-kit": {
    cannot: "alone in a process it cannot hold a run: a tool waits for an event of an Inngest server."
  }
}

export const semantics: Workload = {
  name: "semantics",
  title: "Semantics",
  what: `What becomes of a run with a call that waits for an approval, played with real processes on a real store; the tool takes 300 ms and leaves a line in a file each time it has an effect. Two processes approve the same call at once, or 60 ms apart; the same approval is sent again when the run is over; the process is killed (\`kill -9\`) right after the effect, or when the model is called next, and another one goes on; one of two calls is approved; the user says something while the call waits. \`runs twice\`: a call had its effect more than once. \`runs unasked\`: a call ran that nobody had approved. \`too soon\`: the model was called while a call in its history had no result, which providers refuse. \`lost\`: an approved call did not run, the message was not heard, or the run could not be brought to its end. \`refused\`: the system refused and left the run as it was. Of several tries the worst.`,
  cases: ["a held run"],
  systems: Object.keys(modules),
  cannot: (system) => {
    const module = modules[system]
    return typeof module === "object" ? module.cannot : undefined
  },
  floor: false,
  primary: "wrong",
  patience: 600,
  rounds: 1,
  columns: [
    ...Object.entries(cells).map(([key, { title }]) => ({ key, title })),
    { key: "wrong", title: "not right", digits: 0 }
  ],
  // The other cells speak for themselves.
  note: (figures) =>
    Object.entries(cells)
      .filter(([key]) => ["again", "oneOfTwo", "message"].includes(key) && figures[key] !== "right")
      .map(([key, { title }]) => `_${title}_: ${figures[`${key}Detail`]}.`)
      .join(" "),
  targets: [
    {
      says: "every cell is right (cells that are not)",
      reached: ({ get }) => get("fermata", "a held run", "wrong"),
      most: 0
    }
  ],
  measure: async ({ folder, system }) => {
    const module = modules[system.name] as string
    const figures: Record<string, string | number> = {}
    let wrong = 0
    for (const [key, { play, times }] of Object.entries(cells)) {
      let worst: Seen | undefined
      for (let time = 0; time < times; time++) {
        const seen = await play(Path.join(import.meta.dirname, module), folder())
        if (worst === undefined || (worst.word === "right" && seen.word !== "right")) worst = seen
      }
      if (worst!.word !== "right") wrong += 1
      figures[key] = worst!.word
      figures[`${key}Detail`] = worst!.detail
    }
    return { ...figures, wrong }
  }
}
