/**
 * The target of a call, and the virtual paths under which its files are published.
 */
import type { Shape as Sandbox } from "../../sandbox/Sandbox.ts"
import type { ToolTarget } from "../ToolContext.ts"

/** The target of a call that acts in the sandbox, or without one in this process. */
export const targetIn = (sandbox: Sandbox | undefined): ToolTarget =>
  sandbox === undefined
    ? thisProcess()
    : {
        kind: sandbox.ref.backend,
        description: sandbox.target,
        cwd: sandbox.workdir,
        isolated: sandbox.capabilities.has("isolated")
      }

const thisProcess = (): ToolTarget => {
  const cwd = workingDirectory()
  const target = { kind: "process", description: "this process, not confined", isolated: false }
  return cwd === undefined ? target : { ...target, cwd }
}

/** The working directory; `undefined` in a program without one, and if it was removed. */
const workingDirectory = (): string | undefined => {
  const { process } = globalThis as { readonly process?: { readonly cwd?: () => string } }
  try {
    return process?.cwd?.()
  } catch {
    return undefined
  }
}

/** The path under which a file is published: below `/workspace` in the target's directory, otherwise `/outside/` with its name alone. */
export const virtualPath = ({ cwd }: ToolTarget, path: string): string => {
  const steps = stepsOf(path)
  const base = cwd === undefined ? [] : stepsOf(cwd)
  const isInside = isAbsolute(path)
    ? cwd !== undefined && base.every((step, at) => steps[at] === step)
    : steps[0] !== ".."
  const inside = isAbsolute(path) ? steps.slice(base.length) : steps
  if (isInside && inside.length > 0) return `/workspace/${inside.join("/")}`
  const name = steps.at(-1) ?? "file"
  return `/outside/${name === ".." ? "file" : name}`
}

const isAbsolute = (path: string): boolean => /^([/\\]|[a-z]:[/\\])/i.test(path)

/** The names of a path, without `.` and with `..` resolved in the text as far as possible. */
const stepsOf = (path: string): ReadonlyArray<string> => {
  const steps: Array<string> = []
  for (const step of path.split(/[/\\]/)) {
    if (step === "" || step === ".") continue
    if (step === ".." && steps.length > 0 && steps.at(-1) !== "..") steps.pop()
    else if (step !== ".." || !isAbsolute(path)) steps.push(step)
  }
  return steps
}
