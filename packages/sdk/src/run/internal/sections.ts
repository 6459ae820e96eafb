/**
 * Renders the sections of an agent as a message behind the history.
 */
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import type { AnySection } from "../../agent/AgentDefinition.ts"
import { call, describe } from "../../agent/internal/userCode.ts"
import * as History from "../../domain/History.ts"
import { text, type Message, type TextPart } from "../../domain/Message.ts"
import { openSandboxOf } from "../calls/sandbox.ts"
import { calledOf } from "../calls/userCalls.ts"
import { isStopped, stateOf, timeLeftOf, type AgentRun } from "./AgentRun.ts"
import { now } from "./Drive.ts"
import { instructionsContext } from "./runContext.ts"

/** The most characters of a section. */
const mostCharacters = 20_000

/**
 * Renders the sections of the agent that has the conversation. Returns a message with the texts, none if no section has one, and `undefined`
 * if the run was stopped meanwhile.
 */
export const renderSections = Effect.fnUntraced(function* (
  run: AgentRun,
  turn: number,
  sections: ReadonlyArray<AnySection>
): Effect.fn.Return<ReadonlyArray<Message> | undefined> {
  const content: Array<TextPart> = []
  for (const section of sections) {
    const rendered = yield* render(run, turn, section)
    if (Exit.isFailure(rendered) && isStopped(run, rendered.cause)) return undefined
    const said = shown(run, rendered)
    if (said !== undefined) content.push(text(`[${section.name}]\n${said}`))
  }
  if (content.length === 0) return []
  const sequence = History.size(stateOf(run).history)
  return [{ role: "user", sequence, at: now(run.drive), origin: "runtime", content }]
})

const render = (run: AgentRun, turn: number, { name, render }: AnySection) =>
  Effect.suspend(() => {
    const { toolTimeoutMs } = stateOf(run).limits
    const ms = Math.max(1, Math.min(toolTimeoutMs, timeLeftOf(run) ?? toolTimeoutMs))
    const rendering = () => render({ ...instructionsContext(run, turn), sandbox: openSandboxOf(run) })
    return run.supervisor.run(
      call<unknown>(run.drive.runtime, calledOf(run, `section ${name}`), rendering, ms)
    )
  })

/** The text of a section, without secrets; `undefined` if it is left out. */
const shown = (run: AgentRun, rendered: Exit.Exit<unknown, unknown>): string | undefined => {
  const { runtime } = run.drive
  if (Exit.isFailure(rendered))
    return `This section cannot be shown: ${describe(runtime, Cause.squash(rendered.cause))}`
  const { value } = rendered
  if (value === undefined || value === "") return undefined
  if (typeof value !== "string") return "This section cannot be shown: it did not return a text"
  const clean = runtime.scrubber.scrub(value)
  if (clean.length <= mostCharacters) return clean
  const half = mostCharacters / 2
  return `${clean.slice(0, half)}\n[… ${clean.length - mostCharacters} characters are left out …]\n${clean.slice(-half)}`
}
