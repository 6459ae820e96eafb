/**
 * One of several workers that decide and resume all the runs of a store, each in its own order, until every run has ended. Prints the
 * counts of its outcomes as one line of JSON.
 */
import { approve, isAlreadyDecided, isRunBusy } from "@fermata/node"
import { openCashier } from "./chargeAgent.ts"

const [store = "", log = "", owner = "", seed = "1"] = process.argv.slice(2)

/** Shuffles; the same seed gives the same order. */
const shuffled = <A>(items: ReadonlyArray<A>): Array<A> => {
  let state = Number(seed)
  const random = () => (state = (state * 16807) % 2147483647) / 2147483647
  return items
    .map((item) => ({ item, at: random() }))
    .sort((a, b) => a.at - b.at)
    .map(({ item }) => item)
}

const report = { decided: 0, tooLate: 0, resumed: 0, busy: 0 }
await using fermata = await openCashier({ store, log, owner })

// Every worker reads the same hundred runs before any of them starts.
const runs = shuffled(await fermata.runs({ limit: 1000 }))
const pending = shuffled(await fermata.pending({ limit: 1000 }))
process.stdout.write("ready\n")
await new Promise<void>((resolve) => process.stdin.once("data", () => resolve()))
process.stdin.destroy()

for (const { request } of pending) {
  try {
    await fermata.decide(request, approve())
    report.decided += 1
  } catch (error) {
    // The error names the winner.
    if (!isAlreadyDecided(error) || !/^worker-\d$/.test(error.by) || error.by === owner) throw error
    report.tooLate += 1
  }
}
let open = runs.map(({ runId }) => runId)
while (open.length > 0) {
  const left: typeof open = []
  for (const runId of open) {
    try {
      const result = await fermata.resume(runId)
      if (result.status !== "completed") throw new Error(`${runId} is ${result.status}`)
      report.resumed += 1
    } catch (error) {
      if (!isRunBusy(error)) throw error
      report.busy += 1
      left.push(runId)
    }
  }
  open = left
}
process.stdout.write(`${JSON.stringify(report)}\n`)
