/**
 * The benchmark checks of CI: every workload does its work, and no cost grows faster than it may. Costs are counted in statements, rows
 * and bytes, which are the same on every machine; never in time.
 */
import * as Fs from "node:fs"
import * as Path from "node:path"
import type { Adapter, PastMessage, System } from "../System.ts"
import { adds, done, gated, prose, waits } from "../workloads/scripts.ts"
import { demand, traffic } from "./measure.ts"
import { counted, countStatements } from "./statements.ts"
import { offered } from "./Workload.ts"

/** The cost of one unit of work, at some size. */
interface Counts {
  readonly statements: number
  readonly rows: number
  readonly written: number
  readonly read: number
}

const counting = async (work: () => Promise<unknown>, units = 1): Promise<Counts> => {
  const before = { ...counted(), ...traffic() }
  await work()
  const after = { ...counted(), ...traffic() }
  return {
    statements: (after.statements - before.statements) / units,
    rows: (after.rows - before.rows) / units,
    written: (after.written - before.written) / units,
    read: (after.read - before.read) / units
  }
}

/** Runs all checks of these systems and returns the number of failures. */
export const smoke = async (systems: ReadonlyArray<System>, place: string): Promise<number> => {
  countStatements()
  let failed = 0
  let folders = 0
  const folder = () => {
    const path = Path.join(place, String(++folders))
    Fs.mkdirSync(path)
    return path
  }
  for (const { module, title } of systems) {
    const { adapter } = (await import(`.${module}`)) as { readonly adapter: Adapter }
    /** Allows `large` a multiple of `small`, and a few pages or rows more. */
    const check = (what: string, small: number, large: number, times: number, slack = 0): void => {
      // Where the system does not count bytes, there are none to compare.
      const ok = Number.isNaN(small) || large <= small * times + slack
      if (!ok) failed += 1
      const numbers = `${small.toFixed(1)} → ${large.toFixed(1)}`
      console.log(`${ok ? "ok  " : "FAIL"} ${title}: ${what}: ${numbers}`)
    }
    await inMemory(adapter)
    await steps(adapter, folder, check)
    await holds(adapter, folder, check)
    await inboxes(adapter, folder, check)
    await conversations(adapter, folder, check)
  }
  return failed
}

/** Bytes of a page in the log. */
const page = 1048

/** The trees of a larger store are deeper. */
const pages = 4 * page

type Check = (what: string, small: number, large: number, times: number, slack?: number) => void

/** The work is done; CI does not check its cost. */
const inMemory = async (adapter: Adapter): Promise<void> => {
  const turns = adds(50)
  demand(await (await offered(adapter.step)(turns.script))(), done, "The final text")
  demand(turns.calls(), 50, "The number of calls")

  const many = adds(2, () => new Promise((resolve) => setTimeout(resolve, 5)))
  const run = await offered(adapter.fanOut)(many.script)
  const texts = await Promise.all(Array.from({ length: 500 }, run))
  demand(texts.filter((text) => text === done).length, 500, "The number of runs that came to the end")
  demand(many.calls(), 1000, "The number of calls")

  const together = waits(100, 10)
  demand(await (await offered(adapter.parallel)(together.script))(), done, "The final text")
  demand(together.calls(), 100, "The number of calls")

  const deltas = Array.from({ length: 2000 }, (_, at) => `${at} `)
  const seen = await (await offered(adapter.stream)({ prompt: "Tell me.", deltas }))()
  demand(seen.deltas, deltas.length, "The number of deltas")
  demand(seen.characters, deltas.join("").length, "The number of characters")
}

/** A step of a long run costs as much as a step of a short one. */
const steps = async (adapter: Adapter, folder: () => string, check: Check): Promise<void> => {
  const of = async (turns: number): Promise<Counts> => {
    const { calls, script } = adds(turns)
    const runs = await offered(adapter.stored)(folder(), script)
    const counts = await counting(async () => demand(await runs.run(), done, "The final text"), turns)
    await runs.close()
    demand(calls(), turns, "The number of calls")
    return counts
  }
  const [short, long] = [await of(50), await of(1000)]
  check("statements of a stored step, in a run of 50 and of 1,000", short.statements, long.statements, 1.1)
  check("rows of a stored step", short.rows, long.rows, 1.1)
  // Only the log of the long run grows so large that it is copied into the file.
  check("bytes written by a stored step", short.written, long.written, 1.1, page)
}

const history = (messages: number): ReadonlyArray<PastMessage> =>
  Array.from({ length: messages }, (_, at) => ({
    role: at % 2 === 0 ? "user" : "assistant",
    text: prose(at, 400)
  }))

/** A hold writes only new data, and reads the conversation a bounded number of times. */
const holds = async (adapter: Adapter, folder: () => string, check: Check): Promise<void> => {
  const task = offered(adapter.hold)
  const of = async (messages: number): Promise<Counts> => {
    const place = folder()
    await task.prepare(place, history(messages))
    const { calls, script } = gated()
    const first = await task.open(place, script)
    const opened = [first]
    const counts = await counting(async () => {
      await first.start()
      demand(calls(), 0, "The number of calls while the run is held")
      const second = await task.open(place, script)
      opened.push(second)
      demand(await second.finish(), done, "The final text")
    })
    demand(calls(), 1, "The number of calls")
    for (const { close } of opened) await close()
    return counts
  }
  const [none, some, many] = [await of(10), await of(200), await of(1000)]
  check("bytes written by a hold cycle, on 10 and on 1,000 messages", none.written, many.written, 1.25, pages)
  check(
    "rows of a hold cycle for 190 messages more, for 800",
    some.rows - none.rows,
    many.rows - some.rows,
    5
  )
}

/** The first page and one run cost as much among many held runs as among few. */
const inboxes = async (adapter: Adapter, folder: () => string, check: Check): Promise<void> => {
  const of = async (runs: number) => {
    const place = folder()
    const { calls, script } = gated()
    const filling = await offered(adapter.inbox)(place, script)
    for (let run = 0; run < runs; run++) await filling.hold()
    await filling.close()
    const inbox = await offered(adapter.inbox)(place, script)
    let page: Awaited<ReturnType<typeof inbox.list>> = []
    const list = await counting(async () => {
      page = await inbox.list(50)
    })
    demand(page.length, 50, "The length of the page")
    const release = await counting(async () => {
      await page[0]!.approve()
      demand(await page[0]!.resume(), done, "The final text")
    })
    demand(calls(), 1, "The number of calls")
    await inbox.close()
    return { list, release }
  }
  const [few, many] = [await of(100), await of(2000)]
  check("rows read to list 50 of 100 and of 2,000 held runs", few.list.rows, many.list.rows, 1, 1)
  check("statements to list them", few.list.statements, many.list.statements, 1)
  check("bytes read to list them", few.list.read, many.list.read, 1.5, 65_536)
  check("rows to release one", few.release.rows, many.release.rows, 1, 1)
  check("statements to release one", few.release.statements, many.release.statements, 1, 1)
  check("bytes written to release one", few.release.written, many.release.written, 1.25, pages)
  check("bytes read to release one", few.release.read, many.release.read, 1.5, 65_536)
}

/** A late exchange in a conversation writes as much as an early one, and reads no more than the conversation. */
const conversations = async (adapter: Adapter, folder: () => string, check: Check): Promise<void> => {
  const answer = prose(7, 400)
  const conversation = await offered(adapter.conversation)(folder(), answer)
  const of = async (exchanges: number): Promise<Counts> =>
    counting(async () => {
      for (let at = 0; at < exchanges; at++)
        demand(await conversation.say(prose(at, 400)), answer, "The answer")
    }, exchanges)
  const [early, middle, late] = [await of(150), await of(150), await of(150)]
  await conversation.close()
  check("statements of an exchange, of the first 150 and the third", early.statements, late.statements, 1.1)
  // The first window has no checkpoint in it.
  check("bytes written by an exchange", early.written, late.written, 1.5)
  // Some windows have one checkpoint of the history more, which is a row.
  check("rows of an exchange for 150 more", middle.rows - early.rows, late.rows - middle.rows, 1.1, 0.1)
}
