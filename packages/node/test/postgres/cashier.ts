/**
 * An agent that charges a card, and runs of it that are driven to their end while the database is disturbed.
 */
import { assert } from "@effect/vitest"
import { agent, approve, createFermata, type Fermata, tool } from "@fermata/node"
import { PostgresStore } from "@fermata/node/postgres"
import { ScriptedModel } from "@fermata/node/testing"

/** A Fermata on a database. `charges` holds the idempotency key of every charge. */
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
    // A long deadline, so that the outcome does not depend on how busy the machine is.
    store: PostgresStore.layer({ url, busyDeadline: "5 minutes" })
  })
  return { fermata, charges }
}

/** One run: started, held, approved, resumed, completed. Calls `onStep` after each step. Returns its id. */
const drive = async (fermata: Fermata.Fermata, onStep: () => void): Promise<string> => {
  const held = await fermata.runPrompt("cashier", "Charge the card")
  if (held.status !== "interrupted") return assert.fail(`The run is ${held.status}.`)
  onStep()
  await fermata.decide(held.interruptions[0]!, approve(), { by: "ana" })
  onStep()
  const end = await fermata.resume(held.runId)
  if (end.status !== "completed") return assert.fail(`The run is ${end.status}.`)
  onStep()
  return held.runId
}

/** How runs are driven while the database is disturbed. */
interface DriveOptions {
  /** Runs to drive at least. */
  readonly atLeast: number
  /** Disturbs the database. Called each time after `every` further steps of the runs. Default: nothing. */
  readonly disturb?: () => Promise<unknown>
  /** Steps between two disturbances: the progress of the runs bounds them, and not the time. */
  readonly every?: number
  /** Whether there were enough disturbances. */
  readonly enough?: () => boolean
}

/**
 * Drives runs, eight at a time, until at least `atLeast` have ended and `enough` returns true. Then checks that all of them are
 * stored, and that each charged once. Returns their number.
 */
export const driveUntil = async (url: string, options: DriveOptions): Promise<number> => {
  const { atLeast, disturb = async () => {}, enough = () => true, every = 1 } = options
  const runIds: Array<string> = []
  let steps = 0
  let isOver = false
  let onStep = () => {}
  const step = () => {
    steps += 1
    onStep()
  }
  const disturbing = async () => {
    for (let due = every; !isOver; due = steps + every) {
      await new Promise<void>((resolve) => {
        onStep = () => {
          if (isOver || steps >= due) resolve()
        }
        onStep()
      })
      if (!isOver) await disturb()
    }
  }
  const { charges, fermata } = await openCashier(url)
  {
    await using open = fermata
    const lane = async () => {
      while (runIds.length < atLeast || !enough()) runIds.push(await drive(open, step))
    }
    const driving = Promise.all(Array.from({ length: 8 }, lane)).finally(() => {
      isOver = true
      onStep()
    })
    await Promise.all([driving, disturbing()])
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
