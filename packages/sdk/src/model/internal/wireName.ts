/** A name as every provider takes it: of a tool, of an output, and of the tools that a model made up. */
export const wireName = (name: string): string =>
  name.replaceAll(/[^a-zA-Z0-9_-]/g, "_").slice(0, 64) || "unnamed"
