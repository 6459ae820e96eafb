/**
 * Cost and size of a run, a conversation and an inbox that grow.
 */
import * as Fs from "node:fs"
import * as Path from "node:path"
import { demand, idle, median, watch } from "../harness/measure.ts"
import { type Bench, type Figures, isRefusal, type Medians, type Workload } from "../harness/Workload.ts"
import type { System } from "../System.ts"
import { adds, done, gated, prose } from "./scripts.ts"

const messages = 20_000
const held = 100_000

/** The size of a folder's files in bytes. */
const sizeOf = (folder: string): number =>
  Fs.readdirSync(folder, { withFileTypes: true, recursive: true })
    .filter((entry) => entry.isFile())
    .reduce((sum, { name, parentPath }) => sum + Fs.statSync(Path.join(parentPath, name)).size, 0)

/** Bytes of a message in the form in which a provider receives it. */
const transcriptBytes = (message: object): number => Buffer.byteLength(JSON.stringify(message)) + 1

/** One run of 10,000 turns, each with 1 kB of result: cost of a turn early and late, and what is stored in the end. */
const longRun = async ({ adapter, folder, system }: Bench): Promise<Figures> => {
  if (isRefusal(adapter.stored)) return { note: adapter.stored.cannot }
  const turns = messages / 2
  let result = 0
  const { calls, script } = adds(turns, undefined, () => prose(result++, 1000))
  const marks = new Map<number, () => { readonly cpu: number; readonly bytes: number }>()
  const costs = new Map<number, { readonly cpu: number; readonly bytes: number }>()
  const window = 200
  const place = folder()
  const deadline = performance.now() + patienceMs(system)
  let reached = 0
  const runs = await adapter.stored(place, {
    ...script,
    answer: (turn) => {
      const began = marks.get(turn - window)
      if (began !== undefined) costs.set(turn, began())
      if ([300, turns - window].includes(turn)) marks.set(turn, watch())
      reached = turn
      return performance.now() > deadline ? { text: done } : script.answer(turn)
    }
  })
  demand(await runs.run(), done, "The final text")
  demand(calls(), reached - 1, "The number of calls")
  await runs.close()
  if (reached <= turns) return { note: `stopped at ${reached} turns: there was no more time` }
  let transcript = transcriptBytes({ role: "user", content: script.prompt })
  for (let turn = 0; turn < turns; turn++) {
    const [call] = script.answer(turn + 1).calls ?? []
    transcript += transcriptBytes({
      role: "assistant",
      tool_calls: [
        { id: call?.id, type: "function", function: { name: call?.name, arguments: call?.arguments } }
      ]
    })
    transcript += transcriptBytes({ role: "tool", tool_call_id: call?.id, content: prose(turn, 1000) })
  }
  const early = costs.get(300 + window)
  const late = costs.get(turns)
  return {
    early: (early?.cpu ?? Number.NaN) / window / 1000,
    late: (late?.cpu ?? Number.NaN) / window / 1000,
    lateKb: (late?.bytes ?? Number.NaN) / window / 1000,
    stored: sizeOf(place) / transcript
  }
}

/** A conversation of 20,000 messages: cost of an exchange early and late, and what is stored in the end. */
const longConversation = async ({ adapter, folder, system }: Bench): Promise<Figures> => {
  if (isRefusal(adapter.conversation)) return { note: adapter.conversation.cannot }
  const place = folder()
  const answer = prose(7, 400)
  const conversation = await adapter.conversation(place, answer)
  const deadline = performance.now() + patienceMs(system)
  const costs: Array<{ readonly cpu: number; readonly bytes: number }> = []
  let transcript = 0
  for (let at = 0; at < messages / 2 && performance.now() < deadline; at++) {
    const text = prose(at, 400)
    const spent = watch()
    demand(await conversation.say(text), answer, "The answer")
    costs.push(spent())
    await idle()
    transcript += transcriptBytes({ role: "user", content: text })
    transcript += transcriptBytes({ role: "assistant", content: answer })
  }
  await conversation.close()
  const of = (part: typeof costs, key: "cpu" | "bytes") => median(part.map((cost) => cost[key])) / 1000
  return {
    early: of(costs.slice(100, 150), "cpu"),
    late: of(costs.slice(-50), "cpu"),
    lateKb: of(costs.slice(-50), "bytes"),
    stored: sizeOf(place) / transcript,
    ...(costs.length < messages / 2 ? { note: `stopped at ${costs.length * 2} messages` } : {})
  }
}

/** 100,000 held runs: the first page, a decision, and the resumption of one. */
const fullInbox = async ({ adapter, folder, system }: Bench): Promise<Figures> => {
  if (isRefusal(adapter.inbox)) return { note: adapter.inbox.cannot }
  const place = folder()
  const { calls, script } = gated()
  const inbox = await adapter.inbox(place, script)
  const deadline = performance.now() + patienceMs(system)
  let runs = 0
  while (runs < held && performance.now() < deadline) {
    await inbox.hold()
    runs += 1
    await idle()
  }
  demand(calls(), 0, "The number of calls while all runs are held")
  const lists: Array<number> = []
  const decisions: Array<number> = []
  const resumes: Array<number> = []
  for (let round = 0; round < 20; round++) {
    const listing = watch()
    const page = await inbox.list(100)
    lists.push(listing().wall / 1000)
    demand(page.length, Math.min(100, runs - round), "The length of the page")
    const deciding = watch()
    await page[0]!.approve()
    decisions.push(deciding().wall / 1000)
    const resuming = watch()
    demand(await page[0]!.resume(), done, "The final text")
    resumes.push(resuming().wall / 1000)
    demand(calls(), round + 1, "The number of calls")
  }
  await inbox.close()
  return {
    list: median(lists),
    decide: median(decisions),
    resume: median(resumes),
    ...(runs < held ? { note: `with ${runs.toLocaleString("en")} runs: there was no time for more` } : {})
  }
}

/** Fermata must finish; the trend of the other systems is enough. */
const patienceMs = ({ name }: System): number => (name === "fermata" || name === "floor" ? 240_000 : 30_000)

const cases: Readonly<Record<string, (bench: Bench) => Promise<Figures>>> = {
  "a run of 20,000 messages": longRun,
  "a conversation of 20,000 messages": longConversation,
  "100,000 held runs": fullInbox
}

const flat = (name: string) => ({
  says: `${name}: a late turn costs at most 1.2 × an early one`,
  reached: ({ get }: Medians) => {
    const early = get("fermata", name, "early")
    const late = get("fermata", name, "late")
    return early === undefined || late === undefined ? undefined : late / early
  },
  most: 1.2
})
const small = (name: string) => ({
  says: `${name}: stored in at most 1.3 × the transcript`,
  reached: ({ get }: Medians) => get("fermata", name, "stored"),
  most: 1.3
})
const quick = (key: string, says: string) => ({
  says: `100,000 held runs: ${says} in at most 20 ms`,
  reached: ({ get }: Medians) => get("fermata", "100,000 held runs", key),
  most: 20
})

export const growth: Workload = {
  name: "growth",
  title: "Growth",
  what: "A journaled run of 10,000 turns with results of 1 kB; a conversation of 10,000 exchanges, each a separate run with the history of all earlier ones; 100,000 held runs in one store, of which the first hundred are listed and one is decided and resumed. The figures are CPU milliseconds per turn after 300 turns (100 exchanges) and at the end, kB written by a late turn, and the ratio of the stored size to the messages as JSON; for the inbox, wall milliseconds. Fermata and the floor have four minutes per case, the other systems half a minute; an unfinished case is measured up to that point.",
  cases: Object.keys(cases),
  apart: true,
  floor: false,
  primary: "late",
  rounds: 1,
  patience: 600,
  columns: [
    { key: "early", title: "early, ms", digits: 2 },
    { key: "late", title: "late, ms", digits: 2 },
    { key: "lateKb", title: "late, kB" },
    { key: "stored", title: "stored, × transcript", digits: 2 },
    { key: "list", title: "list, ms", digits: 2 },
    { key: "decide", title: "decide, ms", digits: 2 },
    { key: "resume", title: "resume, ms", digits: 2 },
    { key: "note", title: "note" }
  ],
  targets: [
    flat("a run of 20,000 messages"),
    small("a run of 20,000 messages"),
    flat("a conversation of 20,000 messages"),
    small("a conversation of 20,000 messages"),
    quick("list", "a page listed"),
    quick("resume", "one resumed")
  ],
  measure: (bench, name) => cases[name]!(bench)
}
