/**
 * The behavior of a held run under faults.
 */
import * as Path from "node:path"
import type { Workload } from "../harness/Workload.ts"
import { cells, type Seen } from "../semantics/cells.ts"

/** The module of a system's holding, from this folder; or the reason why it has none. */
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
      "it has no approvals: a workflow awaits a deferred value, and the program implements the loop, the calls and their approval."
  },
  "agent-kit": {
    cannot: "it cannot hold a run within one process: a tool waits for an event of an Inngest server."
  }
}

export const semantics: Workload = {
  name: "semantics",
  title: "Semantics",
  what: `The behavior of a run that is held on an approval, with real processes on a real store. The tool takes 300 ms and appends a line to a file at each effect. The cases: two processes approve the same call at once, or 60 ms apart; the same approval is sent again after the end of the run; the process is killed (\`kill -9\`) directly after the effect, or at the next model call, and another process continues; one of two calls is approved; the user sends a message while the run is held. \`runs twice\`: a call had its effect more than once. \`runs unasked\`: a call ran without approval. \`too soon\`: the model was called while a call in its history had no result, which providers refuse. \`lost\`: an approved call did not run, the model did not receive the message, or the run could not be completed. \`refused\`: the system refused and did not change the run. The table shows the worst of several attempts.`,
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
  // The other cells need no note.
  note: (figures) =>
    Object.entries(cells)
      .filter(([key]) => ["again", "oneOfTwo", "message"].includes(key) && figures[key] !== "right")
      .map(([key, { title }]) => `_${title}_: ${figures[`${key}Detail`]}.`)
      .join(" "),
  targets: [
    {
      says: "every cell is right (number of other cells)",
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
