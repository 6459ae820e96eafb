/**
 * The least that each workload can cost: a hand-written loop, one fenced append of the new data, an async generator.
 *
 * It fulfils every requirement of the workload: with a store, every write compares the head's revision and epoch, a decision is made
 * once, and the start of a call is written before its body runs.
 */
import * as Path from "node:path"
import { DatabaseSync, type StatementSync } from "node:sqlite"
import type { Adapter, Answer, Held, Script } from "../System.ts"

type Message =
  | { readonly role: "user"; readonly text: string }
  | { readonly role: "assistant"; readonly text?: string; readonly calls?: Answer["calls"] }
  | { readonly role: "tool"; readonly callId: string; readonly text: string }

/** One answer of the model. */
const ask = async (script: Script, turn: number): Promise<Answer> => {
  if (script.pause !== undefined) await script.pause()
  return script.answer(turn)
}

const bodies = (script: Script) => new Map(script.tools.map((tool) => [tool.name, tool]))

/** Turns until the model answers with text; `onTurn` receives the new messages of each turn. */
const loop = async (
  script: Script,
  tools: ReturnType<typeof bodies>,
  messages: Array<Message>,
  onTurn: (added: ReadonlyArray<Message>) => void
): Promise<string> => {
  for (let turn = 1; ; turn++) {
    const { calls = [], text } = await ask(script, turn)
    if (calls.length === 0) {
      const said: Message = { role: "assistant", text: text ?? "" }
      messages.push(said)
      onTurn([said])
      return text ?? ""
    }
    const results = await Promise.all(
      calls.map(async ({ arguments: json, id, name }): Promise<Message> => {
        const args = JSON.parse(json) as Readonly<Record<string, number>>
        return { role: "tool", callId: id, text: await tools.get(name)!.run(args) }
      })
    )
    const added: ReadonlyArray<Message> = [{ role: "assistant", calls }, ...results]
    messages.push(...added)
    onTurn(added)
  }
}

const inMemory = async (script: Script) => {
  const tools = bodies(script)
  return () => loop(script, tools, [{ role: "user", text: script.prompt }], () => {})
}

/** Room for the revisions of one run: its rows are neighbors in the one table of all journals. */
const room = 2 ** 24

/**
 * The tables, and one statement for each operation on them. Keys are integers, since SQLite writes about a quarter less for an append
 * to such a table than to one with a key of text and a number.
 */
const openStore = (folder: string) => {
  const database = new DatabaseSync(Path.join(folder, "floor.db"))
  // Pages and checkpoints as in a store of Fermata.
  database.exec("PRAGMA page_size = 1024; PRAGMA journal_mode = WAL; PRAGMA wal_autocheckpoint = 4000")
  database.exec("PRAGMA synchronous = FULL; PRAGMA busy_timeout = 1000")
  database.exec(`
    CREATE TABLE IF NOT EXISTS head (run INTEGER PRIMARY KEY, revision INT, epoch INT, status TEXT);
    CREATE TABLE IF NOT EXISTS journal (place INTEGER PRIMARY KEY, added TEXT);
    CREATE TABLE IF NOT EXISTS requests (request INTEGER PRIMARY KEY, run INT, call TEXT, decision TEXT)`)
  const create = database.prepare("INSERT INTO head VALUES (?, 0, 1, 'running')")
  const head = database.prepare("SELECT revision FROM head WHERE run = ?")
  const fence = database.prepare(
    "UPDATE head SET revision = revision + 1, status = ? WHERE run = ? AND revision = ? AND epoch = 1"
  )
  const append = database.prepare("INSERT INTO journal VALUES (?, ?)")
  const load = database.prepare("SELECT added FROM journal WHERE place >= ? AND place < ? ORDER BY place")
  const request = database.prepare("INSERT INTO requests (run, call) VALUES (?, ?)")
  const pending = database.prepare(
    "SELECT request, run, call FROM requests WHERE decision IS NULL ORDER BY request LIMIT ?"
  )
  const decide = database.prepare(
    "UPDATE requests SET decision = 'approve' WHERE request = ? AND decision IS NULL"
  )
  const settle = database.prepare("DELETE FROM requests WHERE request = ? AND decision IS NOT NULL")
  const once = (statement: StatementSync, ...values: ReadonlyArray<string | number>): void => {
    if (statement.run(...values).changes !== 1) throw new Error("Another writer was first.")
  }
  const commit = (work: () => void): void => {
    database.exec("BEGIN IMMEDIATE")
    work()
    database.exec("COMMIT")
  }
  return {
    commit,
    create: (run: number) => once(create, run),
    revision: (run: number) => (head.get(run) as { readonly revision: number } | undefined)?.revision,
    /** Compare-and-set on the head, and one row. */
    append: (run: number, revision: number, status: string, added: ReadonlyArray<Message>) => {
      once(fence, status, run, revision)
      once(append, run * room + revision, JSON.stringify(added))
    },
    load: (run: number): Array<Message> => {
      const messages: Array<Message> = []
      const rows = load.all(run * room, (run + 1) * room) as unknown as ReadonlyArray<{
        readonly added: string
      }>
      for (const { added } of rows)
        for (const message of JSON.parse(added) as ReadonlyArray<Message>) messages.push(message)
      return messages
    },
    request: (run: number, call: string) => once(request, run, call),
    pending: (limit: number) => pending.all(limit) as unknown as ReadonlyArray<Pending>,
    decide: (request: number) => once(decide, request),
    settle: (request: number) => once(settle, request),
    close: async () => database.close()
  }
}

interface Pending {
  readonly request: number
  readonly run: number
  readonly call: string
}

type Store = ReturnType<typeof openStore>

/** The prompt, the model's call, and the request to approve it, in one commit. */
const hold = async (store: Store, run: number, script: Script): Promise<void> => {
  const revision = store.revision(run)
  const { calls } = await ask(script, 1)
  store.commit(() => {
    if (revision === undefined) store.create(run)
    store.append(run, revision ?? 0, "held", [
      { role: "user", text: script.prompt },
      { role: "assistant", calls }
    ])
    store.request(run, JSON.stringify(calls![0]))
  })
}

/** Records the start of the call, runs it, calls the model, and writes both results. */
const release = async (store: Store, { call, request, run }: Pending, script: Script): Promise<string> => {
  const messages = store.load(run)
  const { arguments: json, id, name } = JSON.parse(call) as NonNullable<Answer["calls"]>[number]
  const revision = store.revision(run)!
  store.commit(() => store.append(run, revision, "running", []))
  const tool = script.tools.find((tool) => tool.name === name)!
  const text = await tool.run(JSON.parse(json) as Readonly<Record<string, number>>)
  const result: Message = { role: "tool", callId: id, text }
  messages.push(result)
  const { text: said = "" } = await ask(script, 2)
  store.commit(() => {
    store.append(run, revision + 1, "completed", [result, { role: "assistant", text: said }])
    store.settle(request)
  })
  return said
}

/** The run of a folder with one conversation. */
const only = 1

export const adapter: Adapter = {
  step: inMemory,
  fanOut: inMemory,
  parallel: inMemory,
  stored: async (folder, script) => {
    const store = openStore(folder)
    const tools = bodies(script)
    let runs = 0
    return {
      run: () => {
        const id = ++runs
        store.commit(() => {
          store.create(id)
          store.append(id, 0, "running", [{ role: "user", text: script.prompt }])
        })
        let revision = 1
        return loop(script, tools, [{ role: "user", text: script.prompt }], (added) =>
          store.commit(() => store.append(id, revision++, "running", added))
        )
      },
      close: store.close
    }
  },
  hold: {
    prepare: async (folder, history) => {
      const store = openStore(folder)
      store.commit(() => {
        store.create(only)
        for (let at = 0; at < history.length; at += 2)
          store.append(only, at / 2, "completed", history.slice(at, at + 2))
      })
      await store.close()
    },
    open: async (folder, script) => {
      const store = openStore(folder)
      return {
        start: async () => {
          if (store.load(only).length === 0) throw new Error("The conversation is empty.")
          await hold(store, only, script)
        },
        finish: async () => {
          const [waiting] = store.pending(1)
          if (waiting === undefined) throw new Error("Nothing is held.")
          store.commit(() => store.decide(waiting.request))
          return release(store, waiting, script)
        },
        close: store.close
      }
    }
  },
  stream:
    async ({ deltas }) =>
    async () => {
      const model = async function* () {
        for (const delta of deltas) yield { type: "text-delta", delta }
      }
      let count = 0
      let characters = 0
      for await (const { delta } of model()) {
        count += 1
        characters += delta.length
      }
      return { deltas: count, characters }
    },
  conversation: async (folder, answer) => {
    const store = openStore(folder)
    return {
      say: async (text) => {
        const revision = store.revision(only)
        const messages: Array<Message> = revision === undefined ? [] : store.load(only)
        messages.push({ role: "user", text })
        const said = await Promise.resolve(answer)
        store.commit(() => {
          if (revision === undefined) store.create(only)
          store.append(only, revision ?? 0, "completed", [
            { role: "user", text },
            { role: "assistant", text: said }
          ])
        })
        return said
      },
      close: store.close
    }
  },
  inbox: async (folder, script) => {
    const store = openStore(folder)
    let runs = 0
    return {
      hold: () => hold(store, ++runs, script),
      list: async (limit) =>
        store.pending(limit).map((waiting): Held => ({
          approve: async () => store.commit(() => store.decide(waiting.request)),
          resume: () => release(store, waiting, script)
        })),
      close: store.close
    }
  }
}
