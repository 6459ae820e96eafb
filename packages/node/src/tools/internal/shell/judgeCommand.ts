/**
 * Decides whether a command runs without approval: by the rules, by the words of the command, and by the sandbox in which it would run.
 *
 * The sandbox is the wall, and the rules are a hint. So a command that only reads may run without approval in a sandbox that confines it;
 * without such a sandbox, each command asks.
 */
import type { Sandbox } from "@fermata/sdk"
import * as Effect from "effect/Effect"
import * as CommandRules from "../../../guard/CommandRules.ts"
import type { Settings } from "./shellOptions.ts"

/** A command and the directory in which it would start. */
export interface Line {
  readonly command: string
  readonly cwd: string | undefined
}

/** The judgement about a command, with a reason for a person. */
export interface CommandJudgement {
  readonly decision: CommandRules.CommandDecision
  readonly reason: string
  /** Whether each command in it is known to only read, so that it may be repeated. */
  readonly isHarmless: boolean
}

type Rules = Pick<Settings, "rules" | "confined" | "unconfined">

/** Judges a command in a sandbox. */
export const judgeCommand = Effect.fnUntraced(function* (
  settings: Rules,
  sandbox: Sandbox.Shape,
  line: Line
): Effect.fn.Return<CommandJudgement> {
  const { confined, rules, unconfined } = settings
  const found = yield* CommandRules.classify(line.command, {
    rules,
    mayRead: (path) =>
      Effect.map(sandbox.judgePath(pathIn(line.cwd, path), "read"), ({ decision }) => decision === "allow")
  })
  const isHarmless = found.decision === "allow" && found.commands.every(({ rule }) => rule === undefined)
  const judged = (decision: CommandRules.CommandDecision, reason = found.reason): CommandJudgement => ({
    decision,
    reason,
    isHarmless
  })
  if (found.decision === "deny") return judged("deny")
  const { capabilities } = sandbox
  if (!capabilities.has("isolated")) {
    const isAllowed = found.decision === "allow" && found.commands.every(({ rule }) => rule !== undefined)
    if (unconfined === "rules" && isAllowed) return judged("allow", "A rule allows it.")
    return judged("ask")
  }
  if (found.decision === "allow") return judged("allow")
  if (confined === "ask" || isAskedByRule(rules, found)) return judged("ask")
  if (confined === "run" && !capabilities.has("noNetwork"))
    return judged("ask", `${found.reason} The sandbox has a network, over which it could send data.`)
  return judged("allow", "The sandbox confines it.")
})

/** Whether a rule asks about the command, or might, because the line was not understood. */
const isAskedByRule = (
  rules: ReadonlyArray<CommandRules.Rule>,
  { commands }: CommandRules.Classification
): boolean =>
  commands.some(({ decision, rule }) => decision === "ask" && rule !== undefined) ||
  (commands.length === 0 && rules.some(({ decision }) => decision !== "allow"))

const pathIn = (cwd: string | undefined, path: string): string =>
  cwd === undefined || path.startsWith("/") ? path : `${cwd}/${path}`
