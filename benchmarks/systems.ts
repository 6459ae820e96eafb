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
    quiet: "None.",
    durability: "WAL, synchronous=FULL."
  },
  {
    name: "fermata",
    title: "Fermata",
    module: "./systems/fermata.ts",
    installed: "workspace",
    entries: ["@fermata/node", "@fermata/sdk"],
    packages: ["@fermata/node"],
    quiet: "Off by default: only the program can install a tracer.",
    durability: "WAL, synchronous=FULL (its default)."
  },
  {
    name: "effect-ai",
    title: "effect/ai",
    module: "./systems/effectAi.ts",
    installed: "workspace",
    entries: ["effect/ai/LanguageModel"],
    packages: ["effect"],
    quiet: "Off by default: only the program can install a tracer.",
    durability: "The program's own: the exported chat in one row, WAL, synchronous=FULL, not fenced."
  },
  {
    name: "effect-workflow",
    title: "Effect's workflow engine",
    module: "./systems/effectWorkflow.ts",
    installed: "workspace",
    entries: ["effect/workflow/Workflow"],
    packages: ["effect"],
    quiet: "Off by default: only the program can install a tracer.",
    durability: "`effect/cluster` with one runner, on Fermata's SQLite client: WAL, synchronous=FULL."
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
  },
  {
    name: "langgraph",
    title: "LangGraph",
    module: "./peers/langgraph.ts",
    installed: "benchmarks",
    entries: ["langchain"],
    packages: ["langchain", "@langchain/langgraph", "@langchain/langgraph-checkpoint-sqlite", "zod"],
    quiet: "`LANGSMITH_TRACING=false`.",
    environment: { LANGSMITH_TRACING: "false" },
    durability:
      'WAL; `synchronous=FULL` set on its connection; `durability: "sync"`. Its driver is `better-sqlite3` 13.2 instead of the requested 12, which crashes the process on Node 24.19 and newer.'
  },
  {
    name: "mastra",
    title: "Mastra",
    module: "./peers/mastra.ts",
    installed: "benchmarks",
    entries: ["@mastra/core/agent"],
    packages: ["@mastra/core", "@mastra/libsql", "@mastra/memory", "zod"],
    quiet: "`MASTRA_TELEMETRY_DISABLED=1`; no observability is configured, and no logger.",
    environment: { MASTRA_TELEMETRY_DISABLED: "1" },
    durability:
      "WAL; it sets `synchronous=NORMAL` without an option, so the benchmark sets `FULL` on its connection afterwards. Stored steps are those of a durable agent with `recovery`."
  },
  {
    name: "adk",
    title: "Google ADK",
    module: "./peers/adk.ts",
    installed: "benchmarks",
    entries: ["@google/adk"],
    packages: ["@google/adk", "@mikro-orm/sqlite", "zod"],
    quiet: "Off by default: only the program can install an exporter.",
    durability: "WAL and `synchronous=FULL`, set on each connection."
  },
  {
    name: "agent-kit",
    title: "AgentKit",
    module: "./peers/agentKit.ts",
    installed: "benchmarks",
    entries: ["@inngest/agent-kit"],
    packages: ["@inngest/agent-kit", "inngest", "zod"],
    quiet: "None.",
    durability: "None of its own: an Inngest server stores its steps."
  }
]
