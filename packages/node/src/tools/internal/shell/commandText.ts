/**
 * The texts about commands that a person and a model read.
 */
import { Display, Message, type Sandbox, Tool } from "@fermata/sdk"
import * as CommandRules from "../../../guard/CommandRules.ts"
import type { CommandJudgement, Line } from "./judgeCommand.ts"

/** A call of `run_shell`. */
export interface ShellCall extends Line {
  readonly timeoutSeconds: number
  readonly background: boolean
}

/** Where and how the command would run, followed by the command itself, so that no line of the command can pass for one of these facts. */
export const previewOf = (call: ShellCall, sandbox: Sandbox.Shape | undefined): string =>
  [
    Display.sentence`Runs on: ${sandbox?.target ?? "unknown, because the sandbox did not open"}`,
    Display.sentence`Starts in: ${directoryOf(call, sandbox)}`,
    call.background
      ? "Goes on in the background until it is stopped."
      : `Is stopped after ${duration(call.timeoutSeconds * 1000)}.`,
    "Command:",
    CommandRules.describe(call.command)
  ].join("\n")

/** The directory as the approver reads it. */
const directoryOf = ({ cwd }: Line, sandbox: Sandbox.Shape | undefined): string => {
  const base = sandbox?.workdir
  if (cwd === undefined) return base ?? "the working directory"
  return base === undefined || cwd.startsWith("/") ? cwd : `${base}/${cwd}`
}

/** The risk of a command: the judgement about it, and what the sandbox lets it do. */
export const riskOf = ({ reason }: CommandJudgement, { capabilities }: Sandbox.Shape): string =>
  `${reason} ${!capabilities.has("isolated") ? unconfined : capabilities.has("noNetwork") ? confined : connected}`

const unconfined = "It is not confined: it can read, change and send everything that this program can."
const confined = "It is confined: it can change the workspace and nothing else, and has no network."
const connected =
  "It is confined: it can change the workspace and nothing else on the machine. It can send what it reads over the network."

/** The longest command in a progress message. */
const longestShown = 2000

/** The progress message of a start. */
export const startedText = ({ background, command }: ShellCall): string =>
  `$ ${CommandRules.describe(command, { maxLength: longestShown })}${background ? " (in the background)" : ""}`

/** The clause about the end of a command: its exit code or its timeout, and its duration. */
export const endText = ({ durationMs, exitCode, timedOut }: Sandbox.ExecResult): string =>
  timedOut
    ? `stopped after ${duration(durationMs)}, because its time was over (exit code ${exitCode})`
    : `exit code ${exitCode} after ${duration(durationMs)}`

/** The result of a command: the exit code, and the streams as parts of their own, each of which keeps its head and its tail. */
export const resultOf = (result: Sandbox.ExecResult): Tool.Content => {
  const { stderr, stdout } = result
  const end = endText(result)
  const notes = result.timedOut
    ? "\nUse a larger timeout, or background: true for a command that does not end."
    : ""
  if (stdout === "" && stderr === "") return Tool.content([Message.text(`${end}, no output${notes}`)])
  const streams = [
    ["stdout", stdout],
    ["stderr", stderr]
  ] as const
  return Tool.content([
    Message.text(`${end}${notes}\n`),
    ...streams.flatMap(([name, text]) =>
      text === "" ? [] : [Message.text(`${name}:\n`), Message.text(text.endsWith("\n") ? text : `${text}\n`)]
    )
  ])
}

/** A time, for a person. */
export const duration = (ms: number): string => {
  if (ms < 10_000) return `${(Math.round(ms / 10) / 100).toString()} s`
  if (ms < 120_000) return `${Math.round(ms / 1000)} s`
  return `${Math.round(ms / 60_000)} min`
}
