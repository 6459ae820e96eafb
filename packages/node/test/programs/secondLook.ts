/**
 * A process that releases the held runs of a store. Arguments: the database, the log of charges, the owner, and its task: `release`;
 * `looks`, which first opens the file a second time in every way; `leave`, which decides nothing. Prints `open` and waits for a line;
 * opens the file again, prints `looked` and waits for a line; decides and resumes the pending runs, prints the outcome as JSON, and
 * waits for a line before it closes.
 */
import { createInterface } from "node:readline"
import { setImmediate } from "node:timers/promises"
import { approve, isAlreadyDecided, SqliteStore } from "@fermata/node"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { openCashier } from "./chargeAgent.ts"

const [store = "", log = "", owner = "", task = "release"] = process.argv.slice(2)
const lines = createInterface({ input: process.stdin })[Symbol.asyncIterator]()
const reach = async (place: string) => {
  process.stdout.write(`${place}\n`)
  await lines.next()
}

const look = async () => {
  await Effect.runPromise(SqliteStore.check({ filename: store }))
  await Effect.runPromise(SqliteStore.backup({ filename: store, to: `${store}.copy` }))
  await Effect.runPromise(Effect.scoped(Layer.build(Layer.fresh(SqliteStore.layer({ filename: store })))))
  const second = await openCashier({ store, log, owner: `${owner} again` })
  await second.runs()
  await second.close()
}

const fermata = await openCashier({ store, log, owner })
await fermata.runs()
await reach("open")
if (task === "looks") await look()
await reach("looked")
const report = { won: 0, tooLate: 0, completed: 0 }
for (const { request } of task === "leave" ? [] : await fermata.pending()) {
  try {
    await fermata.decide(request, approve())
    report.won += 1
  } catch (error) {
    if (!isAlreadyDecided(error)) throw error
    report.tooLate += 1
  }
}
for (const { runId } of task === "leave" ? [] : await fermata.runs({ status: "held" })) {
  const { status } = await fermata.resume(runId)
  if (status === "completed") report.completed += 1
}
await reach(JSON.stringify(report))
await fermata.close()
lines.return?.()
await setImmediate()
process.exit()
