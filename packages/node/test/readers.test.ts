import * as Fs from "node:fs"
import * as Os from "node:os"
import * as Path from "node:path"
import { assert, describe, it } from "@effect/vitest"
import { agent, createFermata, isFermataClosed, type RunHandle, tool } from "@fermata/node"
import { ScriptedModel } from "@fermata/sdk/testing"

/** Reads to the end of the events; returns "ended" or the error. */
const endOf = async (reading: AsyncIterator<unknown>): Promise<unknown> => {
  try {
    while ((await reading.next()).done !== true);
    return "ended"
  } catch (error) {
    return error
  }
}

const ways = {
  "that has not begun": (run: RunHandle.RunHandle) => run.events()[Symbol.asyncIterator](),
  "that has read some": async (run: RunHandle.RunHandle) => {
    const reading = run.events()[Symbol.asyncIterator]()
    await reading.next()
    return reading
  }
}

describe("a reader of events() of a background run", () => {
  for (const [which, read] of Object.entries(ways)) {
    it(`${which} ends, or fails with FermataClosed, after its Fermata is closed`, async () => {
      const directory = Fs.mkdtempSync(Path.join(Os.tmpdir(), "fermata-"))
      const pay = tool("pay", { handler: () => "paid" })
      const fermata = await createFermata({
        agents: [agent("ops", { tools: [pay] })],
        store: Path.join(directory, "runs.db"),
        model: ScriptedModel.make([{ calls: [{ tool: "pay" }] }]).client
      })
      const run = await fermata.dispatch("ops", "pay")
      await run.wait()
      const reading = await read(run)
      await fermata.close()
      const end = await endOf(reading)
      assert.isTrue(end === "ended" || isFermataClosed(end), String(end))
      const late = await endOf(run.events()[Symbol.asyncIterator]())
      assert.isTrue(isFermataClosed(late), String(late))
      Fs.rmSync(directory, { recursive: true })
    })
  }
})
