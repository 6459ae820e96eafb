/**
 * The agents of the scenarios, alone and in teams, and the answers of their models.
 */
import { Agent } from "@fermata/sdk/agent"
import { ModelError, type ModelRequest } from "@fermata/sdk/model"
import type { ScriptedModel } from "@fermata/sdk/testing"
import type { Outside } from "./app.ts"
import { canary } from "./canary.ts"
import * as tools from "./tools.ts"

type Call = readonly [tool: string, amount?: number]

export const calls = (...list: ReadonlyArray<Call>): ScriptedModel.ScriptedAnswer => ({
  calls: list.map(([tool, amount = 1]) => ({ tool, arguments: { amount, memo: canary } }))
})

export const question: ScriptedModel.ScriptedAnswer = {
  calls: [{ tool: "ask_user", arguments: { question: `Go on with ${canary}?` } }]
}

/** Answers by the number of answers since the last prompt, so that a repeated call gets the same answer. */
export const byTurn =
  (...answers: ReadonlyArray<string | ScriptedModel.ScriptedAnswer>) =>
  ({ turn }: ModelRequest.ModelRequest) =>
    answers[turn - 1] ?? `Done: ${canary}.`

const words = `I keep ${canary}. ${"There is much to say about it. ".repeat(100)}`

/** Answers at length, and summarizes. */
export const talking = (request: ModelRequest.ModelRequest): string | ScriptedModel.ScriptedAnswer =>
  request.tools.length === 0
    ? `The user wants ${canary}.`
    : byTurn(
        { text: words, ...calls(["charge", 1]) },
        { text: words, ...calls(["note", 2]) },
        calls(["charge", 3])
      )(request)

/** Settings of all agents. */
const own = (outside: Outside, maxTurns?: number) => ({
  tools: [...tools.make(outside)],
  limits: { maxRecoveries: 1000, ...(maxTurns === undefined ? {} : { maxTurns }) }
})

export const plainAgent = (outside: Outside) => Agent.make("clerk", own(outside))

export const prompt = `Do it, the key is ${canary}.`
export const withAssistant = (outside: Outside) =>
  Agent.make("clerk", {
    ...own(outside),
    subAgents: [Agent.make("assistant", { description: "Helps", ...own(outside) })]
  })

export const delegating = (request: ModelRequest.ModelRequest) =>
  request.agentPath.length > 1
    ? byTurn(calls(["look"], ["charge", 3], ["note", 4]), "Helped.")(request)
    : byTurn(
        {
          calls: [
            { tool: "note", arguments: { amount: 1 } },
            { tool: "assistant", arguments: { prompt } }
          ]
        },
        calls(["charge", 5])
      )(request)

const delegate = (agent: string, background: boolean) => ({
  tool: "delegate",
  arguments: { agent, prompt, background }
})

/** Two agents with tools of the same names; the second takes the conversation over. */
export const withBilling = (outside: Outside) =>
  Agent.make("clerk", { ...own(outside), handoffs: [Agent.make("billing", own(outside))] })

export const handingOver = (request: ModelRequest.ModelRequest) =>
  byTurn(calls(["charge", 1]), { calls: [{ tool: "transfer_to_billing" }] }, calls(["charge", 2]))(request)

/** The clerk has a held background sub-agent; the agent that takes the conversation over has a sub-agent of the same name, which must not act. */
export const withNamesakes = (outside: Outside) => {
  const stray = { ...outside, world: { ...outside.world, effects: outside.world.strays } }
  const leaf = Agent.make("leaf", own(outside, 20))
  const namesake = Agent.make("leaf", own(stray, 20))
  const billing = Agent.make("billing", {
    ...own(outside, 20),
    subAgents: [namesake],
    delegation: "delegate"
  })
  return Agent.make("clerk", {
    ...own(outside, 20),
    subAgents: [leaf],
    handoffs: [billing],
    delegation: "delegate"
  })
}

export const handingOverAtWork = (request: ModelRequest.ModelRequest) =>
  request.agentPath.at(-1) === "leaf"
    ? byTurn(calls(["charge", 3]), calls(["note", 4]), "Charged.")(request)
    : byTurn(
        { calls: [delegate("leaf", true)] },
        { calls: [{ tool: "transfer_to_billing" }] },
        calls(["charge", 5]),
        { calls: [{ tool: "wait_for_agent" }] }
      )(request)

/** A background sub-agent whose calls a grant of its lead may cover. */
export const withHelper = (outside: Outside) =>
  Agent.make("clerk", {
    ...own(outside, 20),
    subAgents: [Agent.make("leaf", own(outside, 20))],
    delegation: "delegate"
  })

export const grantingToHelper = (request: ModelRequest.ModelRequest) =>
  request.agentPath.at(-1) === "leaf"
    ? byTurn(calls(["charge", 2]), calls(["transfer", 3]), calls(["charge", 4]), "Charged.")(request)
    : byTurn(
        calls(["charge", 1]),
        { calls: [delegate("leaf", true)] },
        { calls: [{ tool: "wait_for_agent" }] }
      )(request)

/** Agents three levels deep; each level works beside the others, and each is held somewhere. */
export const withTeam = (outside: Outside) => {
  const given = own(outside, 20)
  const leaf = Agent.make("leaf", given)
  const branch = Agent.make("branch", { ...given, subAgents: [leaf], delegation: "delegate" })
  return Agent.make("clerk", { ...given, subAgents: [branch, leaf], delegation: "delegate" })
}

export const conducting = (request: ModelRequest.ModelRequest) => {
  switch (request.agentPath.at(-1)) {
    case "leaf":
      return byTurn(calls(["charge", request.agentPath.length]), "Charged.")(request)
    case "branch":
      return byTurn(
        { calls: [delegate("leaf", true), { tool: "note", arguments: { amount: 7 } }] },
        { calls: [{ tool: "wait_for_agent" }] },
        calls(["put", 8])
      )(request)
    default:
      return byTurn(
        { calls: [delegate("branch", true), delegate("leaf", true), delegate("leaf", false)] },
        { calls: [{ tool: "wait_for_agent" }] },
        calls(["charge", 9])
      )(request)
  }
}

/** A lead whose model refuses its instructions until they are mended, with an agent that it starts in the background. */
export const withMendable = (outside: Outside) =>
  Agent.make("clerk", {
    ...own(outside),
    instructions: () => (outside.world.notes.has(mended) ? mended : "Broken."),
    subAgents: [Agent.make("leaf", own(outside))],
    delegation: "delegate"
  })

/** The word that mends the instructions, and the mended instructions. */
export const mended = "Mended."

export const failingUntilMended = (
  request: ModelRequest.ModelRequest
): ScriptedModel.ScriptedAnswer | string => {
  if (request.agentPath.length > 1) return byTurn(calls(["charge", 3]), "Charged.")(request)
  if (request.turn === 1) {
    return { calls: [delegate("leaf", true), { tool: "charge", arguments: { amount: 1, memo: canary } }] }
  }
  return request.instructions.includes(mended)
    ? `Done: ${canary}.`
    : { error: new ModelError.InvalidRequest({ description: "No such instructions." }) }
}
