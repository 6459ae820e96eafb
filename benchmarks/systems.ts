/**
 * The systems that are measured side by side. None of them is loaded here.
 */
import type { System } from "./System.ts"

export const systems: ReadonlyArray<System> = [
  {
    name: "floor",
    title: "The floor",
    module: "./systems/floor.ts",
    installed: "none",
    entries: [],
    packages: [],
    quiet: "It has none.",
    durability: "WAL, synchronous=FULL."
  },
  {
    name: "fermata",
    title: "Fermata",
    module: "./systems/fermata.ts",
    installed: "workspace",
    entries: ["@fermata/node", "@fermata/sdk"],
    packages: ["@fermata/node"],
    quiet: "There is nothing to switch off: no tracer is installed unless the program does it.",
    durability: "WAL, synchronous=FULL (its default)."
  },
  {
    name: "ai",
    title: "AI SDK",
    module: "./peers/aiSdk.ts",
    installed: "benchmarks",
    entries: ["ai"],
    packages: ["ai", "zod"],
    quiet: "`telemetry: { isEnabled: false }`.",
    durability: "The program's own: all messages as JSON in one row, WAL, synchronous=FULL, not fenced."
  },
  {
    name: "openai",
    title: "OpenAI Agents",
    module: "./peers/openaiAgents.ts",
    installed: "benchmarks",
    entries: ["@openai/agents"],
    packages: ["@openai/agents", "zod"],
    quiet: "`OPENAI_AGENTS_DISABLE_TRACING=1`.",
    environment: { OPENAI_AGENTS_DISABLE_TRACING: "1" },
    durability: "The program's own: the text of a `RunState` in one row, WAL, synchronous=FULL, not fenced."
  }
]
