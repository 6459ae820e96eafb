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
  }
]
