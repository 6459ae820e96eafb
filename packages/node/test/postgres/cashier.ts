/**
 * An agent that charges when it is told to, and runs of it that are driven from prompt to end while something happens to the
 * database.
 */
import { agent, approve, createFermata, type Fermata, tool } from "@fermata/node"
import { PostgresStore } from "@fermata/node/postgres"
import { ScriptedModel } from "@fermata/node/testing"
import { assert } from "@effect/vitest"

/** A Fermata on a database. Every charge that was made, by its idempotency key, is in `charges`. */
const openCashier = async (url: string) => {
  const charges: Array<string> = []
  const charge = tool("charge_card", {
    handler: (_, { idempotencyKey }) => {
      charges.push(idempotencyKey)
      return "charged"
    }
  })
  const model = ScriptedModel.make(({ turn }) =>
    turn === 1 ? { calls: [{ tool: "charge_card" }] } : "The card is charged."
  )
  const fermata = await createFermata({
    agents: [agent("cashier", { tools: [charge] })],
    model: model.client,
    store: PostgresStore.layer({ url })
  })
  return { fermata, charges }
}

/** One run: started, held, approved, resumed, completed. Gives its id. */
const drive = async (fermata: Fermata.Fermata): Promise<string> => {
  const held = await fermata.runPrompt("cashier", "Charge the card")
  if (held.status !== "interrupted") return assert.fail(`The run is ${held.status}.`)
  await fermata.decide(held.interruptions[0]!, approve(), { by: "ana" })
  const end = await fermata.resume(held.runId)
  if (end.status !== "completed") return assert.fail(`The run is ${end.status}.`)
  return held.runId
}

/**
 * Drives runs, eight at a time, until at least `atLeast` have ended and `enough` says so. Then checks that all of them are
 * stored, and that each charged once. Gives how many there were.
 */
export const driveUntil = async (
  url: string,
  options: { readonly atLeast: number; readonly enough: () => boolean }
): Promise<number> => {
  const runIds: Array<string> = []
  const { charges, fermata } = await openCashier(url)
  {
    await using open = fermata
    const lane = async () => {
      while (runIds.length < options.atLeast || !options.enough()) runIds.push(await drive(open))
    }
    await Promise.all(Array.from({ length: 8 }, lane))
  }
  assert.strictEqual(charges.length, runIds.length)
  assert.strictEqual(new Set(charges).size, runIds.length)
  const later = await openCashier(url)
  await using reader = later.fermata
  const stored = await reader.runs({ status: "completed", limit: 1000 })
  assert.sameMembers(
    stored.map(({ runId }) => runId),
    runIds
  )
  assert.deepStrictEqual(await reader.pending(), [])
  assert.deepStrictEqual(later.charges, [])
  return runIds.length
}
