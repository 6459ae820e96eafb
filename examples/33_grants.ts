/**
 * @title Grants: standing approvals
 *
 * An approval can cover later calls too. The grant is data: which tool, which arguments, for the run or the session, until when, by
 * whom. The journal records it with every call that it permits, and it can be revoked. The model is scripted.
 */
import assert from "node:assert/strict"
import { agent, approve, createFermata, isGrantRefused, Schema, tool } from "@fermata/node"
import { ScriptedModel } from "@fermata/node/testing"

export const main = async () => {
  const ran: Array<string> = []
  const parameters = Schema.Struct({ env: Schema.String })
  const deploy = tool("deploy", { parameters, handler: ({ env }) => void ran.push(`deploy ${env}`) })
  const erase = tool("erase", {
    parameters,
    safety: "privileged",
    handler: ({ env }) => void ran.push(`erase ${env}`)
  })
  const call = (tool: string, env: string) => ({ calls: [{ tool, arguments: { env } }] })
  const model = ScriptedModel.make([
    call("deploy", "staging-1"),
    call("deploy", "staging-2"),
    call("deploy", "production"),
    call("deploy", "staging-3"),
    call("erase", "staging-1")
  ])
  await using fermata = await createFermata({
    agents: [agent("ops", { tools: [deploy, erase] })],
    model: model.client,
    by: "ana"
  })

  const first = await fermata.runPrompt("ops", "Roll it out.")
  assert(first.status === "interrupted" && first.interruptions[0])
  const { runId } = first
  const grant = { scope: "run", arguments: { env: { _tag: "glob", pattern: "staging-*" } } } as const
  await fermata.decide(first.interruptions[0], approve({ grant }))

  // The grant covers staging-2. It does not cover production, which needs approval.
  const second = await fermata.resume(runId)
  assert(second.status === "interrupted" && second.interruptions[0]?._tag === "approval")
  assert.deepEqual(ran, ["deploy staging-1", "deploy staging-2"])
  assert.deepEqual(second.interruptions[0].arguments, { env: "production" })

  // The journal contains the grant, and each call that it permitted.
  const [given] = second.state.grants
  assert(given)
  const covered: Array<string> = []
  for await (const update of fermata.events(runId)) {
    if (update._tag !== "event" || update.event._tag !== "tool.classified") continue
    if (update.event.grantId === given.id) covered.push(`${update.event.callId}: ${update.event.allowedBy}`)
  }
  assert.deepEqual(covered, [`${runId}.t2.1: grant of ana`])
  console.log(given, covered)

  // After the revocation, staging needs approval again.
  await fermata.revokeGrant(runId, given.id)
  await fermata.decide(second.interruptions[0], approve())
  const third = await fermata.resume(runId)
  assert(third.status === "interrupted" && third.interruptions[0]?._tag === "approval")
  assert.deepEqual(third.interruptions[0].arguments, { env: "staging-3" })
  await fermata.decide(third.interruptions[0], approve())

  // Each call of a privileged tool needs its own approval.
  const fourth = await fermata.resume(runId)
  assert(fourth.status === "interrupted" && fourth.interruptions[0])
  await assert.rejects(fermata.decide(fourth.interruptions[0], approve({ grant })), isGrantRefused)
  console.log(ran)
}

if (import.meta.main) await main()
